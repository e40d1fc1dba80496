// What an advice says, looked up in one place.
import type { Advice, AdviceOption, Recipe, Trial } from "../api/types";
import { count, gain } from "../shared/format";

/** What changes, in words; the batch is told apart from it. */
export function changeWords({ costs, seq_len: tokens }: AdviceOption): string {
  return costs.map((cost) => cost.change).join(", ") + (tokens === null ? "" : ` of ${count(tokens)} tokens`);
}

/** `316`, or `8 x 2` where a step sees two batches. */
export function batchWords(batchSize: number, { accumulation_steps: steps }: Pick<Recipe, "accumulation_steps">): string {
  return count(batchSize) + (steps > 1 ? ` x ${count(steps)}` : "");
}

/** Today's training, as it ran if it did; null where it does not fit. */
export function todayTrial({ today }: Advice): Trial | null {
  return today.measured ?? today.predicted;
}

/** The predicted gain of an option that ran. */
export function predictedBeside(option: AdviceOption): number | null {
  return option.measured === null ? null : option.predicted_gain;
}

/** The longest bar of the list: the largest gain, or today's. */
export function mostGain({ options }: Advice): number {
  return Math.max(1, ...options.map((option) => option.gain ?? 0));
}

/** What the batch means for the learning rate, and what is left of the gain with today's batch. */
export function batchNotes(advice: Advice, option: AdviceOption): string[] {
  const before = advice.today.predicted?.samples_per_second;
  const now = option.at_todays_batch;
  const today = advice.current_batch_size;
  const isOther = option.batch_size * option.accumulation_steps !== today * advice.recipe.accumulation_steps;
  return [
    option.learning_rate,
    ...(isOther && now && before
      ? [`With today's batch of ${count(today)} the same change runs at ${gain(now / before)} today's speed, predicted.`]
      : []),
  ];
}

// What an analysis says, looked up in one place.
import type { Analysis, Trial } from "../api/types";
import { heldBytes } from "../result/memory";
import { GIB, bytes, count, short } from "../shared/format";

/** A smaller speedup than this is within what measurements differ by. */
export const WORTH_SAYING = 1.05;

/** The last trial of a batch size that fits and was timed, else the last that fits. */
export function trialAt(analysis: Analysis, batchSize: number | null): Trial | null {
  const tried = analysis.trials.filter((trial) => trial.batch_size === batchSize);
  const fits = tried.filter((trial) => trial.fits);
  return fits.findLast((trial) => trial.samples_per_second !== null) ?? fits.at(-1) ?? null;
}

export const currentTrial = (analysis: Analysis) => trialAt(analysis, analysis.current_batch_size);
export const recommendedTrial = (analysis: Analysis) => trialAt(analysis, analysis.recommended_batch_size);
export const maximumTrial = (analysis: Analysis) => trialAt(analysis, analysis.max_batch_size);

export interface MemoryUse {
  usedBytes: number;
  leftBytes: number;
  totalBytes: number;
  usedPercent: number;
  leftPercent: number;
}

/** What a trial takes of the GPU at its peak, and what it leaves. */
export function memoryUse(analysis: Analysis, trial: Trial): MemoryUse {
  const totalBytes = analysis.gpu_total_gb * GIB;
  const usedBytes = Math.min(heldBytes(analysis.info, trial), totalBytes);
  const usedPercent = (100 * usedBytes) / totalBytes;
  return { usedBytes, leftBytes: totalBytes - usedBytes, totalBytes, usedPercent, leftPercent: 100 - usedPercent };
}

/** Which memory is meant. */
export function memoryWords(analysis: Analysis): string {
  const total = bytes(analysis.gpu_total_gb * GIB, 1);
  return analysis.info.capped
    ? `Memory reserved at the peak of a step, out of the ${total} that the allocator may use.`
    : `Memory in use on the GPU at the peak of a step, out of ${total}.`;
}

/** The range that the true speedup should lie in; null if it is unknown or exact. */
export function speedupRange({ speedup_interval: range }: Pick<Analysis, "speedup_interval">): [number, number] | null {
  return !range || range[1] - range[0] < 0.01 ? null : range;
}

/** Why less than today's batch is recommended; null where it is not less. */
export function whySmaller(analysis: Analysis): string | null {
  const today = count(analysis.current_batch_size);
  switch (analysis.smaller_because ?? null) {
    case "does_not_fit":
      return `Today's batch ${today} does not fit.`;
    case "not_tried":
      return `Today's batch ${today} is above the largest batch that was allowed.`;
    case "thrashing":
      return `At today's batch ${today} the allocator retries, or the time per sample jumps.`;
    case "margin":
      return `Today's batch ${today} leaves less than ${short(100 * analysis.margin)} % of the memory free.`;
    case "uncertain":
      return `Today's batch ${today} is so close to the predicted maximum that it may not fit.`;
    case "as_fast":
      return `It is about as fast as today's batch ${today} and takes less memory.`;
    case null:
      return null;
  }
}

/** What another batch means for the learning rate; null where it stays about the same. */
export function learningRateHint(today: number, batch: number): string | null {
  if (batch >= 2 * today) return "A much larger batch often needs a higher learning rate, with a warm-up.";
  if (2 * batch <= today) {
    return "A much smaller batch often needs a lower learning rate; gradient accumulation keeps today's effective batch.";
  }
  return null;
}

export function isFaster(analysis: Analysis): boolean {
  return (analysis.speedup ?? 0) >= WORTH_SAYING;
}

export function priceWords({ price }: Analysis): string | null {
  if (!price) return null;
  return `$${price.usd_per_hour}/h (${[price.provider, price.note, price.as_of].filter(Boolean).join(", ")})`;
}

/** Describes the other loop: one that keeps the model's outputs if the analysed one drops them, and the reverse. */
export function otherLoopWords(other: NonNullable<Analysis["other_loop"]>): string {
  return other.keeps_outputs
    ? "In a loop with outputs = model(**batch)"
    : "In a loop that keeps only the loss: loss = model(**batch).loss";
}

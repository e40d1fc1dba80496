// What to ask for instead where a training does not fit. The service has checked each by prediction.
import type { JobBody, Question, Suggestion } from "../api/types";
import { questionBody } from "./draft";
import { bytes, count } from "./format";

/** The same question with the change made. */
export function changedBody(question: Question, { change }: Pick<Suggestion, "change">): JobBody {
  return { ...questionBody(question), ...(change as JobBody) };
}

/** How far a suggestion carries. */
export function reachWords(suggestion: Suggestion): string {
  const { max_batch_size: batch, device_bytes: held, total_bytes: total } = suggestion;
  return `Up to batch ${count(batch)}, which takes ${bytes(held, 1)} of ${bytes(total, 1)}`;
}

/** Whether a change of the recipe alone helps, which is what advice looks for. */
export function hasRecipeAlone(suggestions: readonly Suggestion[]): boolean {
  return suggestions.some((one) => one.recipe !== "" && one.gpu_name === "" && !one.without_cap);
}

// What to ask instead, if a training does not fit or a question is refused.
import type { Option, Suggestion } from "../api/types";
import { bytes, count } from "../shared/format";

/** The largest batch of a suggestion that was checked; null for others. */
export function reachWords({ max_batch_size: batch, device_bytes: held, total_bytes: total }: Suggestion): string | null {
  if (batch === undefined || held === undefined || total === undefined) return null;
  return `Up to batch ${count(batch)}, which takes ${bytes(held, 1)} of ${bytes(total, 1)}`;
}

/** Whether a change of the recipe alone helps, which is what advice looks for. */
export function hasRecipeAlone(suggestions: readonly Suggestion[], options: readonly Option[]): boolean {
  const recipe = options.filter((option) => option.group === "recipe").map((option) => option.name);
  return suggestions.some(({ change }) => Object.keys(change).every((name) => recipe.includes(name)));
}

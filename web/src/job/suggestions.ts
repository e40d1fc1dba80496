// What to ask instead, if a training does not fit or a question is refused.
import type { Option, Suggestion } from "../api/types";
import { bytes, count, percent } from "../shared/format";

/** The largest batch of a suggestion that was checked; null for others. */
export function reachWords(suggestion: Suggestion): string | null {
  const { max_batch_size: batch, device_bytes: held, total_bytes: total } = suggestion;
  const { host_bytes: onHost, missed_margin: missed } = suggestion;
  if (batch === undefined || held === undefined || total === undefined) return null;
  const host = onHost ? ` and ${bytes(onHost, 1)} of the host's memory` : "";
  const tight = typeof missed === "number" ? `; less than the margin of ${percent(100 * missed, 0)} stays free` : "";
  return `Up to batch ${count(batch)}, which takes ${bytes(held, 1)} of ${bytes(total, 1)}${host}${tight}`;
}

/** Whether a change of the recipe alone helps, which is what advice looks for. */
export function hasRecipeAlone(suggestions: readonly Suggestion[], options: readonly Option[]): boolean {
  const recipe = options.filter((option) => option.group === "recipe").map((option) => option.name);
  return suggestions.some(({ change }) => Object.keys(change).every((name) => recipe.includes(name)));
}

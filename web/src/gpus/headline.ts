// A comparison of all GPUs in one sentence, and what stands below it.
import type { Comparison } from "../api/types";
import { contestWords } from "../result/contest";
import type { Headline } from "../result/headline";
import { shortGpuName } from "../shared/format";

export function comparisonHeadline(comparison: Comparison): Headline {
  const { fastest, cheapest, gpus } = comparison;
  if (!gpus.some((gpu) => gpu.fits)) return { lead: "It does not fit on any of these GPUs", tone: "bad" };
  const named = namesIn(comparison);
  if (fastest !== null && fastest === cheapest) {
    return { lead: `The ${named(fastest)} is both the fastest and the cheapest`, tone: "good" };
  }
  const said = contestWords(comparison, named);
  return { lead: said ?? "No batch leaves the margin free on any GPU", tone: said ? "good" : "neutral" };
}

/** What stands below that headline. */
export function comparisonDetail(comparison: Comparison): string {
  const { gpus, unpriced } = comparison;
  const several = [comparison.fastest_candidates, comparison.cheapest_candidates].some((some) => (some?.length ?? 0) > 1);
  const names = (unpriced ?? []).map(namesIn(comparison));
  return [
    `Predicted for ${gpus.length} GPUs, each at its recommended batch. Nothing was run on them.`,
    several && "Where several are named, their difference is within the uncertainty.",
    names.length > 0 && `Not considered for cheapest, because no price is known: ${few(names)}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** So many names, and how many others there are. */
const NAMED = 6;

function few(names: readonly string[]): string {
  if (names.length <= NAMED + 1) return names.join(", ");
  return `${names.slice(0, NAMED).join(", ")} and ${names.length - NAMED} others`;
}

function namesIn({ gpus }: Comparison): (id: string) => string {
  return (id) => shortGpuName(gpus.find((gpu) => gpu.gpu === id)?.gpu_name ?? id);
}

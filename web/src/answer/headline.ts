// An analysis in one sentence, and it must be honest.
import type { Analysis } from "../api/types";
import type { Headline } from "../result/headline";
import { sourceWords } from "../result/source";
import { bytes, count, short, speedup } from "../shared/format";
import { currentTrial, isFaster, memoryUse, recommendedTrial, speedupRange, whySmaller } from "./analysis";

export function analysisHeadline(analysis: Analysis): Headline {
  const { current_batch_size: today, max_batch_size: most, recommended_batch_size: best } = analysis;
  const trial = recommendedTrial(analysis);
  if (analysis.info.memory_only) {
    return { lead: `Batch ${count(most)} is the largest that fits; only memory is predicted for this GPU`, tone: "neutral" };
  }
  if (best === null || trial === null) {
    const margin = `${short(100 * analysis.margin)} %`;
    return { lead: `Batch ${count(most)} is the largest that fits, but no batch leaves ${margin} of the memory free`, tone: "bad" };
  }
  const free = bytes(memoryUse(analysis, trial).leftBytes, 1);
  if (currentTrial(analysis) === null) {
    const why = today > most && analysis.max_is_exact ? "does not fit" : "was not tried";
    return { lead: `Today's batch ${count(today)} ${why}; batch ${count(best)} trains and leaves ${free} free`, tone: "bad" };
  }
  if (analysis.speedup !== null && isFaster(analysis)) {
    return {
      lead: `Batch ${count(best)} trains `,
      strong: `${speedup(analysis.speedup)} faster`,
      rest: ` than today and leaves ${free} free`,
      tone: "good",
    };
  }
  if (best === today) {
    return { lead: `Batch ${count(today)} is already right: no larger batch trains faster`, tone: "neutral" };
  }
  if (best < today) return { lead: `Use batch ${count(best)} instead of today's ${count(today)}`, tone: "neutral" };
  return { lead: `Batch ${count(best)} is no faster than today's ${count(today)}`, tone: "neutral" };
}

/** What stands below the headline. */
export function analysisDetail(analysis: Analysis): string {
  const smaller = whySmaller(analysis);
  return [...(smaller ? [smaller] : gainWords(analysis)), sourceWords(analysis)].join(" ");
}

function gainWords(analysis: Analysis): string[] {
  const now = currentTrial(analysis);
  const range = isFaster(analysis) ? speedupRange(analysis) : null;
  const isSlow = analysis.speedup !== null && !isFaster(analysis);
  return [
    ...(now ? [`Today's batch leaves ${Math.round(memoryUse(analysis, now).leftPercent)} % of the memory unused.`] : []),
    ...(range ? [`Expect a speedup between ${speedup(range[0])} and ${speedup(range[1])}.`] : []),
    ...(isSlow ? ["The batch size is not what slows this training down."] : []),
  ];
}

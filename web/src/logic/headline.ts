// The answer in one sentence, and it must be honest.
import type { Analysis, Comparison, Sweep, Trial } from "../api/types";
import { currentTrial, isFaster, recommendedTrial, unusedBytes } from "./analysis";
import { bytes, count, shortGpuName, speedup } from "./format";

export interface Headline {
  sentence: string;
  tone: "good" | "neutral" | "bad";
}

export function analysisHeadline(analysis: Analysis): Headline {
  const { current_batch_size: today, max_batch_size: most, recommended_batch_size: best } = analysis;
  const trial = recommendedTrial(analysis);
  if (best === null || trial === null) {
    const margin = `${Math.round(100 * analysis.margin)} %`;
    return {
      sentence: `Batch ${count(most)} is the most that fits, but no batch keeps ${margin} of the memory free`,
      tone: "bad",
    };
  }
  const free = bytes(unusedBytes(analysis, trial), 1);
  if (currentTrial(analysis) === null) {
    const why = today > most && analysis.max_is_exact ? "does not fit" : "was not tried";
    return {
      sentence: `Today's batch ${count(today)} ${why}; batch ${count(best)} trains and leaves ${free} free`,
      tone: "bad",
    };
  }
  if (analysis.speedup !== null && isFaster(analysis)) {
    return {
      sentence: `Batch ${count(best)} trains ${speedup(analysis.speedup)} faster than today and leaves ${free} free`,
      tone: "good",
    };
  }
  if (best === today) {
    return { sentence: `Batch ${count(today)} is already right: no larger batch trains faster`, tone: "neutral" };
  }
  return {
    sentence: `Batch ${count(best)} is no faster than today's ${count(today)}`,
    tone: "neutral",
  };
}

/** What stands below the headline. */
export function analysisDetail(analysis: Analysis): string {
  const today = analysis.current_waste_percent;
  const waste = today === null ? "" : `Today's batch leaves ${Math.round(today)} % of the memory unused. `;
  const slow =
    analysis.speedup !== null && !isFaster(analysis) ? "The batch size is not what slows this training down. " : "";
  const how =
    analysis.source === "predicted"
      ? `Predicted for the ${analysis.gpu_name}; nothing ran on one.`
      : `Measured on ${analysis.device === "cpu" ? "the server's CPU" : `the ${analysis.gpu_name}`}.`;
  return waste + slow + how;
}

export function comparisonHeadline(comparison: Comparison): Headline {
  const named = (id: string | null) => comparison.gpus.find((gpu) => gpu.gpu === id) ?? null;
  const fastest = named(comparison.fastest);
  const cheapest = named(comparison.cheapest);
  if (!fastest) return { sentence: "It fits no GPU of the catalog", tone: "bad" };
  if (!cheapest) return { sentence: `Fastest on the ${shortGpuName(fastest.gpu_name)}`, tone: "good" };
  if (fastest === cheapest) {
    return { sentence: `The ${shortGpuName(fastest.gpu_name)} is both the fastest and the cheapest`, tone: "good" };
  }
  const names = [fastest, cheapest].map((gpu) => shortGpuName(gpu.gpu_name));
  return { sentence: `Fastest on the ${names[0]}, cheapest on the ${names[1]}`, tone: "good" };
}

export function sweepHeadline(sweep: Sweep): Headline {
  return {
    sentence: `Plan for ${count(sweep.plan_for)} tokens: batch ${count(sweep.planned_batch_size)} fits every shorter sample too`,
    tone: "good",
  };
}

/** Nothing fits: by how much, as far as the trials tell. */
export function doesNotFitHeadline(model: string, trials: Trial[]): Headline {
  const failure = trials.findLast((trial) => trial.failure?.kind === "memory")?.failure;
  const missing = failure ? (failure.requested_bytes ?? 0) - (failure.free_bytes ?? 0) : 0;
  const by = missing > 0 ? `: at least ${bytes(missing)} are missing` : "";
  return { sentence: `${model} does not fit, not even one sample at a time${by}`, tone: "bad" };
}

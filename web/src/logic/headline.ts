// The answer in one sentence, and it must be honest.
import type { Advice, Analysis, Comparison, Sweep } from "../api/types";
import { currentTrial, isFaster, memoryUse, recommendedTrial, speedupBetween, whySmaller } from "./analysis";
import { bytes, count, percent, shortGpuName, speedup } from "./format";
import { sentence } from "./problems";

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
  const free = bytes(memoryUse(analysis, trial).leftBytes, 1);
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
  if (best < today) {
    return { sentence: `Batch ${count(best)} is the one to use, not today's ${count(today)}`, tone: "neutral" };
  }
  return {
    sentence: `Batch ${count(best)} is no faster than today's ${count(today)}`,
    tone: "neutral",
  };
}

/** What stands below the headline. */
export function analysisDetail(analysis: Analysis): string {
  const now = currentTrial(analysis);
  const waste = now ? `Today's batch leaves ${Math.round(memoryUse(analysis, now).leftPercent)} % of the memory unused. ` : "";
  const between = isFaster(analysis) ? speedupBetween(analysis) : null;
  const sure = between ? `The true speedup should lie between ${between.replace(" to ", " and ")}. ` : "";
  const smaller = whySmaller(analysis);
  const slow =
    analysis.speedup !== null && !isFaster(analysis) ? "The batch size is not what slows this training down. " : "";
  return (smaller ? `${smaller} ` : waste + sure + slow) + howWords(analysis);
}

function howWords({ source, gpu_name: gpu, info }: Pick<Analysis, "source" | "gpu_name" | "info">): string {
  if (source === "predicted") return `Predicted for the ${gpu}; nothing ran on one.`;
  return `Measured on ${info.device_kind === "cpu" ? "the server's CPU" : `the ${gpu}`}.`;
}

export function adviceHeadline(advice: Advice): Headline {
  if (!advice.worth_changing) return { sentence: "Nothing is worth changing", tone: "neutral" };
  return { sentence: sentence(advice.verdict).replace(/\.$/, ""), tone: "good" };
}

/** What stands below the headline of an advice. */
export function adviceDetail(advice: Advice): string {
  const how = howAdvised(advice);
  if (!advice.fits_today) return `Today's training does not fit. ${how}`;
  return advice.worth_changing ? how : `${whyNothing(advice.options.map((option) => option.gain ?? 0))} ${how}`;
}

/** Which of the ways ran. */
export function howAdvised(advice: Advice): string {
  const { options } = advice;
  const ran = options.filter((option) => option.source === "measured").length;
  if (ran === 0 || ran === options.length) return howWords(advice);
  return `${ran} of ${options.length} ways ran on the ${advice.gpu_name}; the others are predicted.`;
}

function whyNothing(gains: readonly number[]): string {
  const best = Math.max(...gains);
  if (gains.length === 0 || best < 1.005) return "No other way to train is faster than today's.";
  const ways = gains.length === 1 ? "The only other way to train" : `The best of ${gains.length} other ways to train`;
  return `${ways} gains ${percent(100 * (best - 1), 0)}, which is within what two measurements differ by.`;
}

export function comparisonHeadline(comparison: Comparison): Headline {
  const { fastest, cheapest, gpus } = comparison;
  if (!gpus.some((gpu) => gpu.fits)) return { sentence: "It fits no GPU of the catalog", tone: "bad" };
  const named = (id: string) => shortGpuName(gpus.find((gpu) => gpu.gpu === id)?.gpu_name ?? id);
  if (fastest !== null && fastest === cheapest) {
    return { sentence: `The ${named(fastest)} is both the fastest and the cheapest`, tone: "good" };
  }
  const said = contestWords(comparison, named);
  return { sentence: said ?? "No batch keeps the margin on any GPU", tone: said ? "good" : "neutral" };
}

/** What stands behind that headline. */
export function comparisonDetail(comparison: Comparison): string {
  const { gpus, unpriced } = comparison;
  const several = [comparison.fastest_candidates, comparison.cheapest_candidates].some((some) => (some?.length ?? 0) > 1);
  const names = (unpriced ?? []).map((id) => shortGpuName(gpus.find((gpu) => gpu.gpu === id)?.gpu_name ?? id));
  return [
    `Predicted for ${gpus.length} GPUs, each at the batch worth using there. Nothing ran on them.`,
    several && "Where several are named, they lie within the uncertainty of each other.",
    names.length > 0 && `No price is known for ${names.join(", ")}; not considered for cheapest.`,
  ]
    .filter(Boolean)
    .join(" ");
}

interface Contest {
  fastest: string | null;
  cheapest: string | null;
  fastest_candidates?: string[] | null;
  cheapest_candidates?: string[] | null;
}

/** Who is the fastest and who the cheapest, as far as the uncertainty lets that be told; `null` if nobody is either. */
export function contestWords(contest: Contest, named: (id: string) => string): string | null {
  const fastest = oneOf(contest.fastest, contest.fastest_candidates ?? [], named);
  const cheapest = oneOf(contest.cheapest, contest.cheapest_candidates ?? [], named);
  if (fastest && cheapest) return `Fastest on the ${fastest}, cheapest on the ${cheapest}`;
  return fastest ? `Fastest on the ${fastest}` : null;
}

function oneOf(sure: string | null | undefined, candidates: readonly string[], named: (id: string) => string): string | null {
  if (sure) return named(sure);
  const names = candidates.map(named);
  if (names.length < 2) return names[0] ?? null;
  if (names.length > 3) return `${names.slice(0, 2).join(", ")} or one of ${names.length - 2} others`;
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

export function sweepHeadline(sweep: Sweep): Headline {
  return {
    sentence: `Plan for ${count(sweep.plan_for)} tokens: batch ${count(sweep.planned_batch_size)} fits every shorter sample too`,
    tone: "good",
  };
}

/** Nothing fits; by how much is in the server's own sentence. */
export function doesNotFitHeadline(model: string): Headline {
  return { sentence: `${model} does not fit, not even one sample at a time`, tone: "bad" };
}

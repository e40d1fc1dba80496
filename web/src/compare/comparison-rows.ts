// Several analyses as rows of a table.
import type { Analysis } from "../api/types";
import { currentTrial, maximumTrial, memoryUse, recommendedTrial, speedupRange } from "../answer/analysis";
import { heldBytes } from "../result/memory";
import * as show from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { capitalized } from "../shared/text";

export interface Cell {
  text: string;
  /** The length of the cell's bar, from 0 to 1; null for words. */
  share: number | null;
}

export interface Row {
  name: string;
  cells: Cell[];
  /** Which cell is best; null where none is. */
  best: number | null;
}

type Better = "high" | "low";

/** A result, and how it is trained in a few words. */
interface Compared {
  analysis: Analysis;
  recipe: string;
}

export function comparisonRows(compared: readonly Compared[]): Row[] {
  const analyses = compared.map(({ analysis }) => analysis);
  const row = (name: string, texts: string[]): Row => ({
    name,
    cells: texts.map((text) => ({ text, share: null })),
    best: null,
  });
  const words = (name: string, text: (analysis: Analysis) => string): Row => row(name, analyses.map(text));
  const numbers = (
    name: string,
    value: (analysis: Analysis) => number | null | undefined,
    text: (value: number) => string,
    better: Better | null,
    isAlike = true,
  ): Row => {
    const values = analyses.map((analysis) => value(analysis) ?? null);
    const most = Math.max(0, ...values.map((one) => one ?? 0));
    return {
      name,
      cells: values.map((one) => ({
        text: one === null ? "–" : text(one),
        share: one === null || most <= 0 || !isAlike ? null : Math.max(one, 0) / most,
      })),
      best: better ? bestOf(values, better) : null,
    };
  };
  const speed = (analysis: Analysis) => recommendedTrial(analysis)?.samples_per_second;
  const unit = rateUnit(analyses.map(recommendedTrial));
  const rate = (analysis: Analysis) => rateOf(recommendedTrial(analysis));
  const alike = countsAlike(analyses);
  const perSample = (better: Better) => (alike ? better : null);
  return [
    words("GPU", (analysis) => `${analysis.gpu_name}, ${analysis.gpu_total_gb.toFixed(1)} GiB`),
    words("Sample", (analysis) => analysis.sample + (analysis.small ? ", small stand-in" : "")),
    row("Recipe", compared.map(({ recipe }) => recipe)),
    words("Batch today", (analysis) => show.count(analysis.current_batch_size)),
    numbers("Maximum batch", (analysis) => analysis.max_batch_size, show.count, perSample("high"), alike),
    numbers("Recommended batch", (analysis) => analysis.recommended_batch_size, show.count, null, alike),
    numbers(`${capitalized(unit)} per second`, rate, show.perSecond, perSample("high"), alike),
    numbers("Speedup over today", (analysis) => analysis.speedup, show.speedup, null),
    words("Speedup range", rangeWords),
    numbers("Wasted today", wasted, show.percent, null),
    numbers("GPU memory at the maximum", held, show.bytes, null),
    numbers("Saved per year", (analysis) => analysis.cost_savings_annual, show.dollars, null),
    numbers("$ per million samples", (analysis) => dollarsPerMillion(analysis, speed(analysis)), show.dollars, perSample("low"), alike),
  ];
}

/** Whether a sample is the same in all of them: batches, speeds and costs of samples can be compared only then. */
export function countsAlike(analyses: readonly Analysis[]): boolean {
  return new Set(analyses.map((analysis) => `${analysis.sample} ${analysis.small}`)).size <= 1;
}

/** What cannot be compared, and why; null where all can. */
export function incomparableWords(analyses: readonly Analysis[]): string | null {
  if (countsAlike(analyses)) return null;
  const samples = new Set(analyses.map((analysis) => analysis.sample + (analysis.small ? " (small stand-in)" : "")));
  return `Samples differ (${[...samples].join("; ")}), so batches, speed and cost per sample cannot be compared.`;
}

function rangeWords(analysis: Analysis): string {
  return speedupRange(analysis)?.map(show.speedup).join(" to ") ?? "–";
}

function wasted(analysis: Analysis): number | null {
  const now = currentTrial(analysis);
  return now && memoryUse(analysis, now).leftPercent;
}

function held(analysis: Analysis): number | null {
  const most = maximumTrial(analysis);
  return most && heldBytes(analysis.info, most);
}

/** What a million samples cost at the recommended batch. */
export function dollarsPerMillion(analysis: Analysis, speed: number | null | undefined): number | null {
  if (!analysis.price || !speed) return null;
  return (analysis.price.usd_per_hour / 3600 / speed) * 1e6;
}

function bestOf(values: readonly (number | null)[], better: Better): number | null {
  const known = values.filter((value) => value !== null);
  if (known.length < 2 || new Set(known).size < 2) return null;
  return values.indexOf(better === "high" ? Math.max(...known) : Math.min(...known));
}

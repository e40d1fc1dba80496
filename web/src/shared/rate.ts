// Throughput as people read it: text in tokens per second, other samples in samples per second.
import { perSecond } from "./format";

export type RateUnit = "tokens" | "samples";

/** What has a speed: a trial, a GPU of a comparison, a way to train. */
export interface HasRate {
  samples_per_second?: number | null;
  tokens_per_second?: number | null;
}

/** Tokens if any of them is text, else samples. */
export function rateUnit(timed: readonly (HasRate | null | undefined)[]): RateUnit {
  return timed.some((one) => one?.tokens_per_second != null) ? "tokens" : "samples";
}

/** Null where nothing was timed. */
export function rateOf(timed: HasRate | null | undefined): number | null {
  return timed?.tokens_per_second ?? timed?.samples_per_second ?? null;
}

/** `23.1 samples per second`, or `11,827 tokens per second (23.1 samples)`. */
export function rateWords(timed: HasRate | null | undefined): string {
  const rate = rateOf(timed);
  if (!timed || !rate) return "Not timed";
  const unit = rateUnit([timed]);
  const samples = unit === "tokens" ? ` (${perSecond(timed.samples_per_second ?? 0)} samples)` : "";
  return `${perSecond(rate)} ${unit} per second${samples}`;
}

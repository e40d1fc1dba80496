// GPUs in order.
import type { Contender } from "../api/types";

export type Ranking = "speed" | "cost";

/** The best first; what does not fit, or has no price, last. */
export function ranked(gpus: readonly Contender[], ranking: Ranking): Contender[] {
  const speed = (gpu: Contender) => gpu.samples_per_second ?? -1;
  const cost = (gpu: Contender) => gpu.usd_per_million_samples ?? Infinity;
  const bySpeed = (a: Contender, b: Contender) => Number(b.fits) - Number(a.fits) || speed(b) - speed(a);
  const byCost = (a: Contender, b: Contender) => {
    if (a.fits !== b.fits || cost(a) === cost(b)) return bySpeed(a, b);
    return cost(a) - cost(b);
  };
  return [...gpus].sort(ranking === "speed" ? bySpeed : byCost);
}

/** Of more GPUs than fit a screen, those with a price and so many of the best are shown first. */
const MOST = 24;
const BEST = 12;

/** The GPUs of a ranking to show first. */
export function shortlist(gpus: Contender[]): Contender[] {
  return gpus.length <= MOST ? gpus : gpus.filter((gpu, index) => gpu.fits && (gpu.price !== null || index < BEST));
}

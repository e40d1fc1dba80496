// What an analysis says, looked up in one place.
import type { Analysis, Trial } from "../api/types";

/** A smaller speedup than this is within what measurements differ by. */
export const WORTH_SAYING = 1.05;

/** The last trial of a batch size that fits and was timed, else the last that fits. */
export function trialAt(analysis: Analysis, batchSize: number | null): Trial | null {
  const tried = analysis.trials.filter((trial) => trial.batch_size === batchSize);
  const fits = tried.filter((trial) => trial.fits);
  return fits.findLast((trial) => trial.samples_per_second !== null) ?? fits.at(-1) ?? null;
}

export const currentTrial = (analysis: Analysis) => trialAt(analysis, analysis.current_batch_size);
export const recommendedTrial = (analysis: Analysis) => trialAt(analysis, analysis.recommended_batch_size);
export const maximumTrial = (analysis: Analysis) => trialAt(analysis, analysis.max_batch_size);

/** What a trial leaves unused of the memory that the allocator can have. */
export function unusedBytes(analysis: Analysis, trial: Trial): number {
  return Math.max(analysis.capacity_bytes - trial.peak_allocated_bytes, 0);
}

export function isFaster(analysis: Analysis): boolean {
  return (analysis.speedup ?? 0) >= WORTH_SAYING;
}

/** What today's batch wastes, in percent; null if it does not fit or was not tried. */
export function efficiencyPercent(analysis: Analysis): number {
  return 100 - analysis.waste_percent;
}

export function deviceName(analysis: Analysis): string {
  return analysis.device === "cpu" ? "this server's CPU" : analysis.gpu_name;
}

export function priceWords(analysis: Analysis): string | null {
  const { price } = analysis;
  if (!price) return null;
  const from =
    price.provider === "as given" ? "as given" : [price.provider, price.note, price.as_of].filter(Boolean).join(", ");
  return `$${price.usd_per_hour}/h (${from})`;
}

export const SYNTHETIC = "Batches are synthetic, so the data loader is left out: speed and savings are upper bounds.";

// What an analysis says, looked up in one place.
import type { Analysis, Trial } from "../api/types";
import { GIB, bytes, count, short, speedup } from "./format";

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

/** What a trial takes at its peak of the memory that there is: all that the GPU holds; under a cap, what is reserved. */
export function heldBytes({ capped }: Pick<Analysis["info"], "capped">, trial: Trial): number {
  return capped ? trial.peak_reserved_bytes : trial.device_bytes;
}

export interface MemoryUse {
  usedBytes: number;
  leftBytes: number;
  totalBytes: number;
  usedPercent: number;
  leftPercent: number;
}

/** What a trial takes of the GPU at its peak, and what it leaves. */
export function memoryUse(analysis: Analysis, trial: Trial): MemoryUse {
  const totalBytes = analysis.gpu_total_gb * GIB;
  const usedBytes = Math.min(heldBytes(analysis.info, trial), totalBytes);
  const usedPercent = (100 * usedBytes) / totalBytes;
  return { usedBytes, leftBytes: totalBytes - usedBytes, totalBytes, usedPercent, leftPercent: 100 - usedPercent };
}

/** Which memory is meant. */
export function memoryWords(analysis: Analysis): string {
  const total = bytes(analysis.gpu_total_gb * GIB, 1);
  return analysis.info.capped
    ? `What is reserved at the peak of a step, of the ${total} that the allocator may take.`
    : `All that the GPU holds at the peak of a step, of its ${total}.`;
}

/** What the true speedup should lie between, in words; null where it is not known, or known to the digit. */
export function speedupBetween({ speedup_interval: interval }: Pick<Analysis, "speedup_interval">): string | null {
  if (!interval || interval[1] - interval[0] < 0.01) return null;
  return `${speedup(interval[0])} to ${speedup(interval[1])}`;
}

/** Why less than today's batch is recommended; null where it is not less. */
export function whySmaller(analysis: Analysis): string | null {
  const today = count(analysis.current_batch_size);
  switch (analysis.smaller_because ?? null) {
    case "does_not_fit":
      return `Today's batch ${today} does not fit.`;
    case "not_tried":
      return `Today's batch ${today} is more than was allowed to be tried.`;
    case "thrashing":
      return `At today's batch ${today} the allocator retries, or the time per sample jumps.`;
    case "margin":
      return `Today's batch ${today} leaves less than ${short(100 * analysis.margin)} % of the memory free.`;
    case "uncertain":
      return `Today's batch ${today} is so near the predicted maximum that it may not fit.`;
    case "as_fast":
      return `It is about as fast as today's batch ${today} and takes less memory.`;
    case null:
      return null;
  }
}

/** What another batch means for the learning rate; null where it stays about the same. */
export function learningRateHint(today: number, batch: number): string | null {
  if (batch >= 2 * today) return "A much larger batch often wants a higher learning rate, with a warm-up.";
  if (2 * batch <= today) {
    return "A much smaller batch often wants a lower learning rate; gradient accumulation keeps today's effective batch.";
  }
  return null;
}

export function isFaster(analysis: Analysis): boolean {
  return (analysis.speedup ?? 0) >= WORTH_SAYING;
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

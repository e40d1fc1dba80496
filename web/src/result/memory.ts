// Which memory is meant.
import type { Analysis, Trial } from "../api/types";

/** The memory that a trial takes at its peak: all that the GPU holds or, under a cap, what is reserved. */
export function heldBytes({ capped }: Pick<Analysis["info"], "capped">, trial: Trial): number {
  return capped ? trial.peak_reserved_bytes : trial.device_bytes;
}

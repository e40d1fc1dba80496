// Which memory is meant.
import type { Analysis, Trial } from "../api/types";

/** What a trial takes at its peak of the memory that there is: all that the GPU holds; under a cap, what is reserved. */
export function heldBytes({ capped }: Pick<Analysis["info"], "capped">, trial: Trial): number {
  return capped ? trial.peak_reserved_bytes : trial.device_bytes;
}

import type { Sweep } from "../api/types";
import { csvOf } from "../result/csv";

/** One line for each length. */
export function lengthsCsv({ lengths }: Sweep): string {
  return csvOf(lengths, [
    "seq_len",
    "fits",
    "max_batch_size",
    "recommended_batch_size",
    "samples_per_second",
    "tokens_per_second",
    "planned_samples_per_second",
    "lost",
  ]);
}

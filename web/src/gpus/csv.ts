import type { Comparison } from "../api/types";
import { csvOf } from "../result/csv";

/** One line for each GPU. */
export function gpusCsv({ gpus }: Comparison): string {
  const rows = gpus.map((gpu) => ({ ...gpu, usd_per_hour: gpu.price?.usd_per_hour, run_hours: gpu.whole_run?.hours, run_usd: gpu.whole_run?.usd }));
  return csvOf(rows, [
    "gpu",
    "gpu_name",
    "fits",
    "max_batch_size",
    "recommended_batch_size",
    "samples_per_second",
    "tokens_per_second",
    "usd_per_million_samples",
    "usd_per_hour",
    "run_hours",
    "run_usd",
  ]);
}

import type { Advice } from "../api/types";
import { csvOf } from "../result/csv";

/** One line for each way to train, the best first. */
export function optionsCsv({ options }: Advice): string {
  return csvOf(options, [
    "title",
    "source",
    "gain",
    "predicted_gain",
    "batch_size",
    "accumulation_steps",
    "max_batch_size",
    "samples_per_second",
    "tokens_per_second",
    "memory_gb",
    "device_gb",
    "usd_per_million_samples",
    "cost_savings_annual",
  ]);
}

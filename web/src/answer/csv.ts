// The trials of an analysis as a table.
import type { Trial } from "../api/types";
import { PARTS } from "../charts/chart-data";
import { csv } from "../result/csv";

const COLUMNS = [
  "batch_size",
  "fits",
  "source",
  "steps",
  "peak_allocated_bytes",
  "peak_reserved_bytes",
  "device_bytes",
  "allocator_retries",
  "samples_per_second",
  "tokens_per_batch",
  "tokens_per_second",
  "step_seconds",
  "step_seconds_spread",
] as const satisfies readonly (keyof Trial)[];

/** Every trial in the order it ran. */
export function trialsCsv(trials: readonly Trial[]): string {
  const parts = PARTS.map((part) => part.name);
  const header = [...COLUMNS, ...parts, "samples_per_second_low", "samples_per_second_high", "failure"];
  const rows = trials.map((trial) => [
    ...COLUMNS.map((name) => trial[name]),
    ...parts.map((name) => trial.breakdown?.[name]),
    ...(trial.intervals?.["samples_per_second"] ?? [null, null]),
    trial.failure?.message,
  ]);
  return csv([header, ...rows]);
}

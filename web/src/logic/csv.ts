// Results as tables for a spreadsheet.
import type { Advice, Comparison, Sweep, Trial } from "../api/types";
import { PARTS } from "./chart-data";

type Cell = string | number | boolean | null | undefined;

const TRIAL_COLUMNS = [
  "batch_size",
  "fits",
  "source",
  "steps",
  "peak_allocated_bytes",
  "peak_reserved_bytes",
  "device_bytes",
  "allocator_retries",
  "samples_per_second",
  "step_seconds",
  "step_seconds_spread",
] as const satisfies readonly (keyof Trial)[];

/** Every trial in the order it ran. */
export function trialsCsv(trials: readonly Trial[]): string {
  const parts = PARTS.map((part) => part.name);
  const header = [...TRIAL_COLUMNS, ...parts, "samples_per_second_low", "samples_per_second_high", "failure"];
  const rows = trials.map((trial) => [
    ...TRIAL_COLUMNS.map((name) => trial[name]),
    ...parts.map((name) => trial.breakdown?.[name]),
    ...(trial.intervals?.["samples_per_second"] ?? [null, null]),
    trial.failure?.message,
  ]);
  return csv([header, ...rows]);
}

/** One line for each GPU. */
export function gpusCsv(comparison: Comparison): string {
  const header = [
    "gpu",
    "gpu_name",
    "fits",
    "max_batch_size",
    "recommended_batch_size",
    "samples_per_second",
    "usd_per_million_samples",
    "usd_per_hour",
  ];
  const rows = comparison.gpus.map((gpu) => [
    gpu.gpu,
    gpu.gpu_name,
    gpu.fits,
    gpu.max_batch_size,
    gpu.recommended_batch_size,
    gpu.samples_per_second,
    gpu.usd_per_million_samples,
    gpu.price?.usd_per_hour,
  ]);
  return csv([header, ...rows]);
}

/** One line for each length. */
export function lengthsCsv(sweep: Sweep): string {
  const names = [
    "seq_len",
    "fits",
    "max_batch_size",
    "recommended_batch_size",
    "samples_per_second",
    "tokens_per_second",
    "planned_samples_per_second",
    "lost",
  ] as const;
  return csv([names, ...sweep.lengths.map((length) => names.map((name) => length[name]))]);
}

/** One line for each way to train, the best first. */
export function optionsCsv(advice: Advice): string {
  const names = [
    "title",
    "source",
    "gain",
    "predicted_gain",
    "batch_size",
    "accumulation_steps",
    "max_batch_size",
    "samples_per_second",
    "memory_gb",
    "device_gb",
    "usd_per_million_samples",
    "cost_savings_annual",
  ] as const;
  return csv([names, ...advice.options.map((option) => names.map((name) => option[name]))]);
}

export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => row.map(field).join(",") + "\r\n").join("");
}

function field(cell: Cell): string {
  const text = cell === null || cell === undefined ? "" : String(cell);
  // A spreadsheet would run text that begins like a formula.
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// Trials as the charts draw them.
import type { Analysis, Breakdown, Trial } from "../api/types";
import { GIB } from "./format";

export type PartName = keyof Breakdown;

export interface Part {
  name: PartName;
  label: string;
  color: string;
}

/** From the bottom of a column to its top. */
export const PARTS: readonly Part[] = [
  { name: "weights_bytes", label: "Weights", color: "#5b93ff" },
  { name: "gradients_bytes", label: "Gradients", color: "#c084fc" },
  { name: "optimizer_state_bytes", label: "Optimizer state", color: "#f5b83d" },
  { name: "activations_bytes", label: "Activations", color: "#00d977" },
  { name: "temporaries_bytes", label: "Temporaries", color: "#2cc9d6" },
  { name: "allocator_slack_bytes", label: "Allocator slack", color: "#b0b0b0" },
  { name: "context_bytes", label: "CUDA context", color: "#767676" },
  { name: "other_processes_bytes", label: "Other processes", color: "#b07a5b" },
];

export interface MemoryColumn extends Partial<Record<PartName, number>> {
  batch: number;
  /** GiB of a trial whose parts are not known. */
  whole?: number;
  /** GiB that were reached before it failed. */
  failed?: number;
  /** GiB of the device, all parts together. */
  total: number;
}

/** The last trial of each batch size, smallest first; a timed one says more than a quick one. */
export function lastTrials(trials: readonly Trial[]): Trial[] {
  const byBatch = new Map<number, Trial>();
  for (const trial of trials) {
    const known = byBatch.get(trial.batch_size);
    if (known?.breakdown && !trial.breakdown && trial.fits) continue;
    byBatch.set(trial.batch_size, trial);
  }
  return [...byBatch.values()].sort((a, b) => a.batch_size - b.batch_size);
}

export function memoryColumns(trials: readonly Trial[]): MemoryColumn[] {
  return lastTrials(trials).map((trial) => {
    const column: MemoryColumn = { batch: trial.batch_size, total: trial.device_bytes / GIB };
    if (!trial.fits) column.failed = column.total;
    else if (!trial.breakdown) column.whole = column.total;
    else for (const { name } of PARTS) column[name] = trial.breakdown[name] / GIB;
    return column;
  });
}

/** The parts of a column on top of each other, in GiB from the bottom; parts of nothing are left out. */
export function stacked(column: MemoryColumn): { part: Part; from: number; to: number }[] {
  const layers: { part: Part; from: number; to: number }[] = [];
  for (const part of PARTS) {
    const from = layers.at(-1)?.to ?? 0;
    const size = column[part.name] ?? 0;
    if (size > 0) layers.push({ part, from, to: from + size });
  }
  return layers;
}

/** The columns of an answer: sizes whose parts are known, and the first that fails. */
export function answerColumns(analysis: Analysis): MemoryColumn[] {
  const columns = memoryColumns(analysis.trials).filter((column) => column.whole === undefined);
  const firstFailed = columns.find((column) => column.failed !== undefined);
  return columns.filter((column) => column.failed === undefined || column === firstFailed);
}

/** At most `limit` columns, evenly chosen, first and last kept, so that many trials stay readable and fast. */
export function thinned<T>(items: readonly T[], limit: number): T[] {
  if (items.length <= limit) return [...items];
  const step = (items.length - 1) / (limit - 1);
  return Array.from({ length: limit }, (_, index) => items[Math.round(index * step)]!);
}

/** Parts that at least one column has. */
export function partsShown(columns: readonly MemoryColumn[]): Part[] {
  return PARTS.filter(({ name }) => columns.some((column) => (column[name] ?? 0) > 0));
}

/** The most that the device can hold of this training, in GiB: what the allocator can have, and what is outside it. */
export function limitGib({ capacity_bytes: capacity, breakdown }: Pick<Analysis, "capacity_bytes" | "breakdown">): number {
  const outside = breakdown ? breakdown.context_bytes + breakdown.other_processes_bytes : 0;
  return (capacity + outside) / GIB;
}

/** The same while it runs: what the search keeps within, with what the trials so far say of the rest. */
export function growingLimitGib(capacityBytes: number | null, trials: readonly Trial[]): number | null {
  if (capacityBytes === null) return null;
  const breakdown = trials.findLast((trial) => trial.breakdown)?.breakdown ?? null;
  return limitGib({ capacity_bytes: capacityBytes, breakdown });
}

export interface ThroughputPoint {
  batch: number;
  speed: number;
  /** What the true number should lie between, where it is predicted. */
  between: [number, number] | null;
}

export function throughputPoints(trials: readonly Trial[]): ThroughputPoint[] {
  return lastTrials(trials).flatMap((trial) => {
    if (!trial.fits || trial.samples_per_second === null) return [];
    const between = trial.intervals?.["samples_per_second"] ?? null;
    return [{ batch: trial.batch_size, speed: trial.samples_per_second, between }];
  });
}

/** From 95 % of the best throughput to the best, thrashing sizes left out. */
export function fastBand(
  points: readonly ThroughputPoint[],
  thrashing: readonly number[] = [],
): [number, number] | null {
  const speeds = points.filter((point) => !thrashing.includes(point.batch)).map((point) => point.speed);
  if (speeds.length === 0) return null;
  const best = Math.max(...speeds);
  return [0.95 * best, best];
}

/** Powers of two among the batch sizes, for the ticks of a logarithmic axis; at most nine. */
export function batchTicks(batches: readonly number[]): number[] {
  if (batches.length === 0) return [];
  const low = Math.ceil(Math.log2(Math.min(...batches)));
  const high = Math.floor(Math.log2(Math.max(...batches)));
  const step = Math.max(Math.ceil((high - low + 1) / 9), 1);
  const ticks = [];
  for (let power = low; power <= high; power += step) ticks.push(2 ** power);
  return ticks.length > 0 ? ticks : [Math.min(...batches)];
}

/** Round numbers from 0 up to `top`, four to six of them. */
export function roundTicks(top: number): number[] {
  const rough = top / 5;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough) ?? 10);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => index * step);
}

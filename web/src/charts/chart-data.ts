// Trials as the charts draw them.
import type { Analysis, Breakdown, Trial } from "../api/types";
import { heldBytes } from "../result/memory";
import { GIB } from "../shared/format";
import { rateUnit, type RateUnit } from "../shared/rate";

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
  { name: "gradient_buckets_bytes", label: "Buckets of gradients", color: "#8f7ae5" },
  { name: "optimizer_state_bytes", label: "Optimizer state", color: "#f5b83d" },
  { name: "gathered_parameters_bytes", label: "Gathered parameters", color: "#9fbf3b" },
  { name: "kv_cache_bytes", label: "KV cache", color: "#ff7eb6" },
  { name: "activations_bytes", label: "Activations", color: "#00d977" },
  { name: "temporaries_bytes", label: "Temporaries", color: "#2cc9d6" },
  { name: "allocator_slack_bytes", label: "Allocator slack", color: "#b0b0b0" },
  { name: "context_bytes", label: "CUDA context", color: "#767676" },
  { name: "nccl_bytes", label: "NCCL", color: "#8a8f98" },
  { name: "other_processes_bytes", label: "Other processes", color: "#b07a5b" },
];

export interface MemoryColumn extends Partial<Record<PartName, number>> {
  batch: number;
  /** GiB of a trial whose parts are not known. */
  whole?: number;
  /** GiB that it would take at least, if it failed because there is less. */
  failed?: number;
  /** GiB reached, if it failed because a kernel could not be launched and not for lack of memory. */
  refused?: number;
  /** GiB that are taken, all parts together. */
  total: number;
}

/** The memory available to the columns in GiB, and whether that is a cap on the allocator. */
export interface Room {
  limit: number | null;
  capped: boolean;
}

/** What a cap does not count. */
const OUTSIDE: readonly PartName[] = ["context_bytes", "other_processes_bytes"];
/** The column of a failed batch ends visibly above the limit; numbers say by how much it exceeds it. */
const ABOVE = [1.04, 1.2] as const;

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

export function memoryColumns(trials: readonly Trial[], { limit, capped }: Room): MemoryColumn[] {
  return lastTrials(trials).map((trial) => {
    const column: MemoryColumn = { batch: trial.batch_size, total: heldBytes({ capped }, trial) / GIB };
    if (trial.failure?.kind === "limit") column.refused = column.total;
    else if (!trial.fits) {
      column.failed = neededGib(trial, limit ?? column.total);
      column.total = shownHeight(column.failed, limit);
    } else if (!trial.breakdown) column.whole = column.total;
    else {
      for (const { name } of PARTS) {
        if (!capped || !OUTSIDE.includes(name)) column[name] = trial.breakdown[name] / GIB;
      }
    }
    return column;
  });
}

/** What a trial that ran out of memory would take at least: all that is available, and what was missing. */
function neededGib({ failure }: Trial, limit: number): number {
  const missing = Math.max((failure?.requested_bytes ?? 0) - (failure?.free_bytes ?? 0), 0);
  return limit + missing / GIB;
}

/** As high as the column is drawn: always above the limit, and never so high that the others shrink to nothing. */
function shownHeight(needed: number, limit: number | null): number {
  return limit === null ? needed : Math.min(Math.max(needed, ABOVE[0] * limit), ABOVE[1] * limit);
}

/** The parts of a column on top of each other, in GiB from the bottom; empty parts are left out. */
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
  const columns = memoryColumns(analysis.trials, roomOf(analysis)).filter((column) => column.whole === undefined);
  const firstFailed = columns.find(isFailed);
  return columns.filter((column) => !isFailed(column) || column === firstFailed);
}

export function isFailed({ failed, refused }: MemoryColumn): boolean {
  return failed !== undefined || refused !== undefined;
}

/** The memory available to the columns of an answer. */
export function roomOf(analysis: Analysis): Room & { limit: number } {
  return { limit: analysis.gpu_total_gb, capped: analysis.info.capped };
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

export interface ThroughputPoint {
  batch: number;
  /** In tokens or samples per second. */
  speed: number;
  unit: RateUnit;
  /** What the true number should lie between, where it is predicted. */
  between: [number, number] | null;
}

export function throughputPoints(trials: readonly Trial[]): ThroughputPoint[] {
  return lastTrials(trials).flatMap((trial) => {
    if (!trial.fits || trial.samples_per_second === null) return [];
    const each = trial.tokens_per_sample ?? 1;
    const range = trial.intervals?.["samples_per_second"];
    const between: [number, number] | null = range ? [each * range[0], each * range[1]] : null;
    return [{ batch: trial.batch_size, speed: each * trial.samples_per_second, unit: rateUnit([trial]), between }];
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

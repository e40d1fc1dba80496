// What each of several GPUs that train together holds, as bars.
import type { Analysis } from "../api/types";
import { PARTS, type Part } from "../charts/chart-data";
import { GIB } from "../shared/format";

/** More bars than a usual machine has GPUs say nothing more. */
export const MOST_BARS = 8;

/** What strategies cut into a part for each GPU. */
const CUT = ["weights_bytes", "gradients_bytes", "optimizer_state_bytes"];

export interface HeldPart extends Part {
  bytes: number;
  /** Of all of the GPU's memory. */
  percent: number;
}

export interface GpuBars {
  gpus: number;
  /** How many of them get a bar; the others are like them. */
  shown: number;
  /** The first GPU's, which holds as much as any. */
  parts: HeldPart[];
  batch: number;
  alike: boolean;
}

/** The bars of an answer; null for one GPU, and if its parts are not known. */
export function gpuBars(analysis: Analysis): GpuBars | null {
  const each = analysis.per_gpu;
  if (!each?.breakdown || (analysis.gpus ?? 1) < 2) return null;
  const { breakdown } = each;
  const total = analysis.gpu_total_gb * GIB;
  const parts = PARTS.map((part) => ({
    ...part,
    label: labelOf(analysis, part),
    bytes: breakdown[part.name],
    percent: (100 * breakdown[part.name]) / total,
  })).filter((part) => part.bytes > 0);
  const gpus = analysis.gpus ?? 1;
  return { gpus, shown: Math.min(gpus, MOST_BARS), parts, batch: each.batch_size, alike: analysis.strategy !== "zero1" };
}

/** Names a part and which share of it a GPU has. */
function labelOf(analysis: Analysis, part: Part): string {
  const { gpus = 1, strategy, tensor_parallel: layers = 1, recipe } = analysis;
  const everyone = strategy === "hsdp" ? gpus / (recipe.nodes ?? 1) : gpus;
  const isCut = ["zero2", "zero3", "fsdp", "hsdp"].includes(strategy ?? "");
  if (part.name === "optimizer_state_bytes" && strategy === "zero1") return `${part.label}, a share of it`;
  if (!CUT.includes(part.name)) return part.label;
  if (isCut) return layers > 1 ? `${part.label}, cut over ${everyone} GPUs` : `${part.label}, 1/${everyone} of all`;
  return layers > 1 ? `${part.label}, 1/${layers} of each cut layer` : part.label;
}

// What to try when nothing fits: each way is the same question with one thing changed.
import type { Gpu, JobBody, Model, Question } from "../api/types";
import { questionBody } from "./draft";
import { bytes } from "./format";

// From here on, people train adapters.
const LARGE_MODEL = 1e9;

export interface WayToFit {
  label: string;
  body: JobBody;
}

export function waysToFit(question: Question, model: Model | undefined, gpus: readonly Gpu[]): WayToFit[] {
  const { recipe, target, seq_len, image_size } = question.request;
  const body = questionBody(question);
  const isImage = model?.type === "vision";
  const ways: WayToFit[] = [];
  const add = (label: string, change: Partial<JobBody>) => ways.push({ label, body: { ...body, ...change } });
  if (target.memory_cap_bytes !== null) add("Without the memory cap", { memory_gib: null });
  if (recipe.precision === "fp32") add("Mixed precision (bf16)", { precision: "bf16" });
  if (!isImage && !recipe.gradient_checkpointing) add("Gradient checkpointing", { gradient_checkpointing: true });
  if (recipe.optimizer === "adamw" || recipe.optimizer === "adam") add("SGD", { optimizer: "sgd", fused: false });
  if (recipe.lora === 0 && (model?.parameters ?? 0) >= LARGE_MODEL) add("LoRA, rank 8", { lora: 8 });
  const size = isImage ? image_size : seq_len;
  if (size !== null && size > 1) {
    const half = Math.ceil(size / 2);
    if (isImage) add(`${half} pixels`, { image_size: half });
    else add(`${half} tokens`, { seq_len: half });
  }
  const larger = largerGpu(target.gpu, gpus);
  if (larger && target.memory_cap_bytes === null) {
    add(`${larger.name}, ${bytes(larger.memory_bytes, 0)}`, { gpu: larger.id });
  }
  return ways;
}

/** The next larger GPU of the catalog. */
function largerGpu(id: string | null, gpus: readonly Gpu[]): Gpu | undefined {
  const now = gpus.find((gpu) => gpu.id === id)?.memory_bytes;
  if (now === undefined) return undefined;
  return gpus.filter((gpu) => gpu.memory_bytes > 1.2 * now).sort((a, b) => a.memory_bytes - b.memory_bytes)[0];
}

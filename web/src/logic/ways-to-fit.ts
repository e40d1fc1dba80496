// What to try when nothing fits: each way is the same question with one thing changed. The service's sentence names those
// that can help.
import type { Gpu, JobBody, Model, Question } from "../api/types";
import { questionBody } from "./draft";
import { bytes } from "./format";

const ADAPTERS = "lora 16";
const HALF = /precision (bf16|fp16)/;
const ADAPTERS_IN_HALF = /lora 16 with precision (bf16|fp16)/;

export interface WayToFit {
  label: string;
  body: JobBody;
}

export function waysToFit(
  question: Question,
  model: Model | undefined,
  gpus: readonly Gpu[],
  sentence: string,
): WayToFit[] {
  const { target, seq_len, image_size } = question.request;
  const body = questionBody(question);
  const isImage = model?.type === "vision";
  const ways: WayToFit[] = [];
  const add = (label: string, change: Partial<JobBody>) => ways.push({ label, body: { ...body, ...change } });
  const alone = sentence.replace(ADAPTERS_IN_HALF, "");
  if (alone.includes("memory_gib")) add("Without the memory cap", { memory_gib: null });
  const precision = precisionIn(alone, HALF);
  if (precision) add(`Mixed precision (${precision})`, { precision });
  if (alone.includes("gradient_checkpointing")) add("Gradient checkpointing", { gradient_checkpointing: true });
  if (alone.includes("optimizer sgd")) add("SGD", { optimizer: "sgd", fused: false });
  if (alone.includes(ADAPTERS)) add("LoRA, rank 16", { lora: 16 });
  const adaptersHalf = precisionIn(sentence, ADAPTERS_IN_HALF);
  if (adaptersHalf) add(`LoRA, rank 16, and ${adaptersHalf}`, { lora: 16, precision: adaptersHalf });
  const size = isImage ? image_size : seq_len;
  if (alone.includes(isImage ? "image_size" : "seq_len") && size !== null && size > 1) {
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

function precisionIn(sentence: string, named: RegExp): "bf16" | "fp16" | undefined {
  return named.exec(sentence)?.[1] as "bf16" | "fp16" | undefined;
}

/** The next larger GPU of the catalog. */
function largerGpu(id: string | null, gpus: readonly Gpu[]): Gpu | undefined {
  const now = gpus.find((gpu) => gpu.id === id)?.memory_bytes;
  if (now === undefined) return undefined;
  return gpus.filter((gpu) => gpu.memory_bytes > 1.2 * now).sort((a, b) => a.memory_bytes - b.memory_bytes)[0];
}

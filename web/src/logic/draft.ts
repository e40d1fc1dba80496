// What the form holds, and the question it asks.
import type { Gpu, Health, JobBody, Optimizer, Precision, Question, Request } from "../api/types";
import { readConfig } from "./config-text";
import { FUSED_OPTIMIZERS } from "./recipe";
import { readSizes, sizeError, type SampleShape } from "./sample";

/** The GPU of the server, which is measured on. */
export const HERE = "here";
export const DEFAULT_GPU = "a10";

/** Numbers are kept as typed, so that a field can be empty for a moment. */
export interface Draft {
  model: string;
  /** Whether the model is the pasted config instead of the chosen one. */
  isPasted: boolean;
  configText: string;
  /** The head to train; empty for the usual one. */
  task: string;
  revision: string;
  gpu: string;
  precision: Precision;
  optimizer: Optimizer;
  /** One size, or several lengths with commas. */
  sampleSize: string;
  checkpointing: boolean;
  batchSize: string;
  compile: boolean;
  tf32: boolean;
  channelsLast: boolean;
  fused: boolean;
  lora: string;
  accumulate: string;
  memoryGib: string;
  marginPercent: string;
}

export const FIRST_DRAFT: Draft = {
  model: "bert",
  isPasted: false,
  configText: "",
  task: "",
  revision: "",
  gpu: "",
  precision: "fp32",
  optimizer: "adamw",
  sampleSize: "",
  checkpointing: false,
  batchSize: "16",
  compile: false,
  tf32: false,
  channelsLast: false,
  fused: false,
  lora: "",
  accumulate: "1",
  memoryGib: "",
  marginPercent: "5",
};

export type DraftErrors = Partial<Record<keyof Draft, string>>;

/** The GPU that is chosen when nobody has chosen: the server's, else an A10, else the first. */
export function defaultGpu(gpus: readonly Gpu[], health: Health | undefined): string {
  if (health?.gpu_available) return HERE;
  return gpus.find((gpu) => gpu.id === DEFAULT_GPU)?.id ?? gpus[0]?.id ?? "";
}

export function isMeasured(gpu: string): boolean {
  return gpu === HERE;
}

/** Only what Hugging Face has comes in revisions. */
export function hasRevisions(draft: Draft): boolean {
  return !draft.isPasted && draft.model.includes("/");
}

export function draftErrors(draft: Draft, shape: SampleShape, isOneLength = false): DraftErrors {
  const errors: DraftErrors = {};
  if (draft.isPasted) errors.configText = readConfig(draft.configText).error ?? undefined;
  else if (!draft.model) errors.model = "Choose a model.";
  if (!isWhole(draft.batchSize)) errors.batchSize = "A whole number from 1.";
  errors.sampleSize = sizeError(draft.sampleSize, shape, !isOneLength) ?? undefined;
  if (draft.lora !== "" && !isWhole(draft.lora)) errors.lora = "A whole number from 1, or empty.";
  if (!isWhole(draft.accumulate)) errors.accumulate = "A whole number from 1.";
  if (draft.memoryGib !== "" && !(Number(draft.memoryGib) > 0)) errors.memoryGib = "More than 0, or empty.";
  const margin = Number(draft.marginPercent);
  if (draft.marginPercent === "" || !(margin >= 0 && margin < 100)) errors.marginPercent = "From 0 to 99.";
  return Object.fromEntries(Object.entries(errors).filter(([, error]) => error !== undefined));
}

/** The body of POST /jobs. What does not go with the model or the GPU is left out. */
export function draftBody(draft: Draft, shape: SampleShape): JobBody {
  const sizes = readSizes(draft.sampleSize) ?? [];
  return {
    ...(draft.isPasted ? { config: readConfig(draft.configText).config } : { model_name: draft.model }),
    ...(draft.task ? { task: draft.task } : {}),
    ...(draft.revision.trim() && hasRevisions(draft) ? { revision: draft.revision.trim() } : {}),
    ...(isMeasured(draft.gpu) || !draft.gpu ? {} : { gpu: draft.gpu }),
    precision: draft.precision,
    optimizer: draft.optimizer,
    ...(sizes.length === 1 ? { [shape.field]: sizes[0] } : {}),
    ...(sizes.length > 1 ? { seq_lens: sizes } : {}),
    gradient_checkpointing: draft.checkpointing,
    ...(draft.lora === "" ? {} : { lora: Number(draft.lora) }),
    batch_size: Number(draft.batchSize),
    compile: draft.compile && isMeasured(draft.gpu),
    tf32: draft.tf32,
    channels_last: draft.channelsLast && shape.unit === "pixels",
    fused: draft.fused && FUSED_OPTIMIZERS.includes(draft.optimizer),
    accumulate: Number(draft.accumulate),
    ...(draft.memoryGib === "" ? {} : { memory_gib: Number(draft.memoryGib) }),
    margin: Number(draft.marginPercent) / 100,
  };
}

/** The same for every GPU: there is none to name, and nothing that only a measurement knows. */
export function allGpusBody(draft: Draft, shape: SampleShape): JobBody {
  const { gpu: _, memory_gib: __, ...body } = draftBody({ ...draft, compile: false }, shape);
  return { ...body, all_gpus: true };
}

/** The same training, and what to change about it; torch.compile is tried where the GPU is here. */
export function adviseBody(draft: Draft, shape: SampleShape): JobBody {
  return { ...draftBody(draft, shape), advise: true };
}

/** What to change about the training of an earlier question, or of a part of it. */
export function adviceOn(question: Question, request: Request = question.request): JobBody {
  return questionBody({ ...question, request, all_gpus: false, seq_lens: [], advise: true });
}

/** The body that asks an earlier question again. */
export function questionBody(question: Question): JobBody {
  const { request } = question;
  const { recipe, target } = request;
  return {
    model_name: request.model,
    config: request.config,
    task: request.task,
    revision: request.revision,
    trust_remote_code: request.trust_remote_code,
    gpu: target.gpu,
    device: target.gpu || question.all_gpus ? "auto" : target.device,
    precision: recipe.precision,
    optimizer: recipe.optimizer,
    fused: recipe.fused,
    lora: recipe.lora,
    gradient_checkpointing: recipe.gradient_checkpointing,
    attention: recipe.attention,
    compile: recipe.compile,
    channels_last: recipe.channels_last,
    tf32: recipe.tf32,
    eval_mode: !recipe.train_mode,
    loss: recipe.loss,
    accumulate: recipe.accumulation_steps,
    seq_len: request.seq_len,
    image_size: request.image_size,
    audio_seconds: request.audio_seconds,
    small: request.small,
    batch_size: question.current_batch_size,
    max_batch: question.max_batch,
    memory_gib: target.memory_cap_bytes === null ? null : target.memory_cap_bytes / 2 ** 30,
    margin: question.margin,
    price_per_hour: question.price_per_hour,
    ...question.usage,
    all_gpus: question.all_gpus,
    seq_lens: question.seq_lens,
    advise: question.advise,
    try_compile: question.try_compile,
  };
}

function isWhole(text: string): boolean {
  return /^[1-9]\d{0,8}$/.test(text.trim());
}

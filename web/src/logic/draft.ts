// What the form holds, and the question it asks.
import type { Attention, Gpu, Health, JobBody, Loss, Optimizer, Precision, Question, Request, SampleUnit } from "../api/types";
import { readConfig } from "./config-text";
import { FUSED_OPTIMIZERS } from "./recipe";
import { readSizes, sizeError, type SampleShape } from "./sample";

/** The GPU of the server, which is measured on. */
export const HERE = "here";
export const DEFAULT_GPU = "a10";
/** A device of the server by torch's name. */
export const DEVICE = /^(cpu|mps|cuda(:\d{1,3})?)$/;

/** Numbers are kept as typed, so that a field can be empty for a moment. */
export interface Draft {
  model: string;
  /** Whether the model is the pasted config instead of the chosen one. */
  isPasted: boolean;
  configText: string;
  /** What to call the pasted one; empty for the usual name. */
  configName: string;
  /** The head to train; empty for the usual one. */
  task: string;
  revision: string;
  gpu: string;
  precision: Precision;
  optimizer: Optimizer;
  /** One size, or several lengths with commas. */
  sampleSize: string;
  /** What the size counts, of a model that does not tell; empty where nobody has said. */
  sampleUnit: "" | SampleUnit;
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
  attention: Attention;
  loss: Loss;
  evalMode: boolean;
  /** A stand-in of a few layers; empty for the usual, which is the server's choice. */
  small: "" | "yes" | "no";
  maxBatch: string;
  trustRemoteCode: boolean;
  /** Whether advice may compile. */
  tryCompile: boolean;
  /** Empty for the catalog's. */
  pricePerHour: string;
  hoursPerRun: string;
  runsPerYear: string;
  people: string;
}

export const FIRST_DRAFT: Draft = {
  model: "bert",
  isPasted: false,
  configText: "",
  configName: "",
  task: "",
  revision: "",
  gpu: "",
  precision: "fp32",
  optimizer: "adamw",
  sampleSize: "",
  sampleUnit: "",
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
  attention: "auto",
  loss: "model",
  evalMode: false,
  small: "",
  maxBatch: "",
  trustRemoteCode: false,
  tryCompile: true,
  pricePerHour: "",
  hoursPerRun: "2",
  runsPerYear: "100",
  people: "1",
};

export type DraftErrors = Partial<Record<keyof Draft, string>>;

/** The GPU that is chosen when nobody has chosen: the server's, else an A10, else the first. */
export function defaultGpu(gpus: readonly Gpu[], health: Health | undefined): string {
  if (health?.gpu_available) return HERE;
  return gpus.find((gpu) => gpu.id === DEFAULT_GPU)?.id ?? gpus[0]?.id ?? "";
}

export function isMeasured(gpu: string): boolean {
  return gpu === HERE || DEVICE.test(gpu);
}

/** Only what Hugging Face has comes in revisions. */
export function hasRevisions(draft: Draft): boolean {
  return !draft.isPasted && draft.model.includes("/");
}

export function draftErrors(draft: Draft, shape: SampleShape, isOneLength = false): DraftErrors {
  const errors: DraftErrors = {};
  if (draft.isPasted) errors.configText = readConfig(draft.configText).error ?? undefined;
  else if (draft.model.trim() === "") errors.model = "Choose a model.";
  if (!isWhole(draft.batchSize)) errors.batchSize = "A whole number from 1.";
  errors.sampleSize = sizeError(draft.sampleSize, shape, !isOneLength) ?? undefined;
  if (draft.lora !== "" && !isWhole(draft.lora)) errors.lora = "A whole number from 1, or empty.";
  if (!isWhole(draft.accumulate)) errors.accumulate = "A whole number from 1.";
  if (draft.memoryGib !== "" && !(Number(draft.memoryGib) > 0)) errors.memoryGib = "More than 0, or empty.";
  const margin = Number(draft.marginPercent);
  if (draft.marginPercent === "" || !(margin >= 0 && margin < 100)) errors.marginPercent = "From 0 to 99.";
  if (draft.maxBatch !== "" && !isWhole(draft.maxBatch)) errors.maxBatch = "A whole number from 1, or empty.";
  if (draft.pricePerHour !== "" && !(Number(draft.pricePerHour) >= 0)) errors.pricePerHour = "From 0, or empty.";
  if (!(Number(draft.hoursPerRun) > 0)) errors.hoursPerRun = "More than 0.";
  if (!(Number(draft.runsPerYear) > 0)) errors.runsPerYear = "More than 0.";
  if (!isWhole(draft.people)) errors.people = "A whole number from 1.";
  return Object.fromEntries(Object.entries(errors).filter(([, error]) => error !== undefined));
}

/** The body of POST /jobs. What does not go with the model or the GPU is left out. */
export function draftBody(draft: Draft, shape: SampleShape): JobBody {
  const sizes = readSizes(draft.sampleSize) ?? [];
  return {
    ...(draft.isPasted ? pasted(draft) : { model_name: draft.model }),
    ...(draft.task ? { task: draft.task } : {}),
    ...(draft.revision.trim() && hasRevisions(draft) ? { revision: draft.revision.trim() } : {}),
    ...(draft.trustRemoteCode ? { trust_remote_code: true } : {}),
    ...(isMeasured(draft.gpu) || !draft.gpu ? {} : { gpu: draft.gpu }),
    ...(DEVICE.test(draft.gpu) ? { device: draft.gpu } : {}),
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
    ...(draft.attention === "auto" ? {} : { attention: draft.attention }),
    ...(draft.loss === "model" ? {} : { loss: draft.loss }),
    ...(draft.evalMode ? { eval_mode: true } : {}),
    ...(draft.small === "" ? {} : { small: draft.small === "yes" }),
    ...(draft.maxBatch === "" ? {} : { max_batch: Number(draft.maxBatch) }),
    ...(draft.tryCompile ? {} : { try_compile: false }),
    ...(draft.pricePerHour === "" ? {} : { price_per_hour: Number(draft.pricePerHour) }),
    hours_per_run: Number(draft.hoursPerRun),
    runs_per_year: Number(draft.runsPerYear),
    people: Number(draft.people),
  };
}

function pasted(draft: Draft): JobBody {
  const name = draft.configName.trim();
  return { config: readConfig(draft.configText).config, ...(name ? { model_name: name } : {}) };
}

/** The same for every GPU: there is none to name, and nothing that only a measurement knows. */
export function allGpusBody(draft: Draft, shape: SampleShape): JobBody {
  const here = { gpu: HERE, compile: false, memoryGib: "", pricePerHour: "" };
  const body = draftBody({ ...draft, ...here }, shape);
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

/** What the form holds to ask an earlier question, or a part of it, in other words. */
export function draftOf(question: Question, request: Request = question.request): Draft {
  const { recipe, target, config } = request;
  const lengths = request === question.request ? question.seq_lens : [];
  const sizes = { tokens: request.seq_len, pixels: request.image_size, seconds: request.audio_seconds };
  const unit = (Object.keys(sizes) as SampleUnit[]).find((name) => typed(sizes[name]) !== "");
  return {
    ...FIRST_DRAFT,
    ...(config ? { isPasted: true, configText: JSON.stringify(config, null, 2) } : { model: request.model }),
    configName: config && request.model !== `${String(config["model_type"])} config` ? request.model : "",
    task: request.task ?? "",
    revision: request.revision ?? "",
    trustRemoteCode: request.trust_remote_code ?? false,
    // Without a name it is the server's choice, as in a form that nobody has filled in.
    gpu: target.gpu ?? (question.all_gpus || target.device === "auto" ? "" : target.device),
    precision: recipe.precision,
    optimizer: recipe.optimizer,
    sampleSize: lengths.length > 0 ? lengths.join(", ") : unit ? typed(sizes[unit]) : "",
    sampleUnit: unit ?? "",
    checkpointing: recipe.gradient_checkpointing,
    batchSize: String(question.current_batch_size),
    compile: recipe.compile,
    tf32: recipe.tf32,
    channelsLast: recipe.channels_last,
    fused: recipe.fused,
    lora: recipe.lora > 0 ? String(recipe.lora) : "",
    accumulate: String(recipe.accumulation_steps),
    memoryGib: target.memory_cap_bytes === null ? "" : String(target.memory_cap_bytes / 2 ** 30),
    // Without the dust of binary fractions: 0.07 of all is 7 percent.
    marginPercent: String(Number((100 * question.margin).toFixed(6))),
    attention: recipe.attention ?? "auto",
    loss: recipe.loss,
    evalMode: !recipe.train_mode,
    small: request.small === null ? "" : request.small ? "yes" : "no",
    maxBatch: typed(question.max_batch),
    tryCompile: question.try_compile ?? true,
    pricePerHour: typed(question.price_per_hour),
    hoursPerRun: String(question.usage.hours_per_run),
    runsPerYear: String(question.usage.runs_per_year),
    people: String(question.usage.people),
  };
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

function typed(number: number | null | undefined): string {
  return number === null || number === undefined ? "" : String(number);
}

function isWhole(text: string): boolean {
  return /^[1-9]\d{0,8}$/.test(text.trim());
}

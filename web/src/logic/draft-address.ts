// The question in the address of the page: ?model=gpt2&gpu=h100&precision=bf16. What is as in an untouched form is left out.
import type { Attention, Loss, SampleUnit } from "../api/types";
import { FIRST_DRAFT, type Draft } from "./draft";
import { OPTIMIZERS, PRECISIONS } from "./recipe";

/** How the fields are called in the address: as the service calls them where it can be. */
const NAMES: Record<Exclude<keyof Draft, "isPasted" | "configText">, string> = {
  model: "model",
  configName: "name",
  task: "task",
  revision: "revision",
  gpu: "gpu",
  precision: "precision",
  optimizer: "optimizer",
  sampleSize: "size",
  sampleUnit: "size_unit",
  checkpointing: "gradient_checkpointing",
  batchSize: "batch_size",
  compile: "compile",
  tf32: "tf32",
  channelsLast: "channels_last",
  fused: "fused",
  lora: "lora",
  accumulate: "accumulate",
  memoryGib: "memory_gib",
  marginPercent: "margin_percent",
  attention: "attention",
  loss: "loss",
  evalMode: "eval_mode",
  small: "small",
  maxBatch: "max_batch",
  trustRemoteCode: "trust_remote_code",
  tryCompile: "try_compile",
  pricePerHour: "price_per_hour",
  hoursPerRun: "hours_per_run",
  runsPerYear: "runs_per_year",
  people: "people",
};
const CONFIG = "config";
const KEPT_CONFIG = "kept_config";
/** A config that is longer makes an address that mail and chat programs cut off: the browser keeps it instead. */
const LONGEST_CONFIG = 8_000;

const CHOICES: Partial<Record<keyof Draft, readonly string[]>> = {
  precision: Object.keys(PRECISIONS),
  optimizer: Object.keys(OPTIMIZERS),
  attention: ["auto", "eager", "sdpa"] satisfies Attention[],
  loss: ["model", "mean"] satisfies Loss[],
  small: ["", "yes", "no"],
  sampleUnit: ["", "tokens", "pixels", "seconds"] satisfies ("" | SampleUnit)[],
};

/** Where configs that are too long for an address are kept. */
export interface Keep {
  get: (key: string) => string | null;
  set: (key: string, text: string) => void;
}

/** The question as the part of an address after the ?. */
export function draftQuery(draft: Draft, keep: Keep): string {
  const query = new URLSearchParams();
  for (const [field, name] of Object.entries(NAMES) as [keyof typeof NAMES, string][]) {
    const isWritten = field === "model" ? !draft.isPasted : draft[field] !== FIRST_DRAFT[field];
    if (isWritten) query.set(name, written(draft[field]));
  }
  if (draft.isPasted) {
    const text = withoutSpaces(draft.configText);
    if (text.length <= LONGEST_CONFIG) query.set(CONFIG, text);
    else {
      keep.set(keyOf(text), text);
      query.set(KEPT_CONFIG, keyOf(text));
    }
  }
  // As people write it: these mean nothing else here.
  return query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** What an address asks; null where it asks nothing. What makes no sense in it is left as in an untouched form. */
export function readDraftQuery(text: string, keep: Keep): Draft | null {
  const query = new URLSearchParams(text);
  const draft: Draft = { ...FIRST_DRAFT };
  let isAsking = false;
  for (const [field, name] of Object.entries(NAMES) as [keyof typeof NAMES, string][]) {
    const given = query.get(name);
    if (given === null) continue;
    isAsking = true;
    if (typeof FIRST_DRAFT[field] === "boolean") Object.assign(draft, { [field]: given === "true" });
    else if (CHOICES[field]?.includes(given) ?? true) Object.assign(draft, { [field]: given });
  }
  const kept = query.get(KEPT_CONFIG);
  const config = query.get(CONFIG) ?? (kept === null ? null : (keep.get(kept) ?? ""));
  if (config === null) return isAsking ? draft : null;
  return { ...draft, isPasted: true, configText: withSpaces(config) };
}

function written(value: string | boolean): string {
  return typeof value === "string" ? value.trim().replace(/,\s+/g, ",") : String(value);
}

/** JSON in one line; what is no JSON stays as it is. */
function withoutSpaces(text: string): string {
  return rewritten(text) ?? text;
}

function withSpaces(text: string): string {
  return rewritten(text, 2) ?? text;
}

function rewritten(text: string, indent?: number): string | null {
  try {
    return JSON.stringify(JSON.parse(text), null, indent);
  } catch {
    return null;
  }
}

/** The same for the same text. */
function keyOf(text: string): string {
  let hash = 0;
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) >>> 0;
  return `${hash.toString(36)}${text.length.toString(36)}`;
}

// The question in the address of the page: ?model=gpt2&gpu=h100&precision=bf16. Options have the service's names;
// those with their default are left out.
import { FIRST_DRAFT, type Draft } from "./draft";

const MODEL = "model";
const NAME = "name";
const GPU = "gpu";
const CONFIG = "config";
const KEPT_CONFIG = "kept_config";
/** A config that is longer makes an address that mail and chat programs cut off: the browser keeps it instead. */
const LONGEST_CONFIG = 8_000;

/** Where configs that are too long for an address are kept. */
export interface Keep {
  get: (key: string) => string | null;
  set: (key: string, text: string) => void;
}

/** The question as the part of an address after the ?. */
export function draftQuery(draft: Draft, keep: Keep): string {
  const query = new URLSearchParams();
  if (!draft.isPasted) query.set(MODEL, written(draft.model));
  if (draft.configName) query.set(NAME, written(draft.configName));
  if (draft.gpu) query.set(GPU, written(draft.gpu));
  for (const [name, text] of Object.entries(draft.options)) query.set(name, written(text));
  if (draft.isPasted) {
    const text = withoutSpaces(draft.configText);
    if (text.length <= LONGEST_CONFIG) query.set(CONFIG, text);
    else {
      keep.set(keyOf(text), text);
      query.set(KEPT_CONFIG, keyOf(text));
    }
  }
  // Unescaped, as people write them: these characters have no other meaning here.
  return query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** What an address asks; null where it asks nothing. */
export function readDraftQuery(text: string, keep: Keep): Draft | null {
  const {
    [MODEL]: model = FIRST_DRAFT.model,
    [NAME]: configName = "",
    [GPU]: gpu = "",
    [CONFIG]: config,
    [KEPT_CONFIG]: kept,
    ...options
  } = Object.fromEntries(new URLSearchParams(text)) as Partial<Record<string, string>> & Record<string, string>;
  if (text === "") return null;
  const draft: Draft = { ...FIRST_DRAFT, model, configName, gpu, options };
  const pasted = config ?? (kept === undefined ? undefined : (keep.get(kept) ?? ""));
  return pasted === undefined ? draft : { ...draft, isPasted: true, configText: withSpaces(pasted) };
}

function written(text: string): string {
  return text.trim().replace(/,\s+/g, ",");
}

/** JSON in one line; other text stays as it is. */
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

/** A key that is the same for the same text. */
function keyOf(text: string): string {
  let hash = 0;
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) >>> 0;
  return `${hash.toString(36)}${text.length.toString(36)}`;
}

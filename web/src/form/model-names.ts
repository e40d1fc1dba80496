// The models to choose from, how other names are spelled, and what to say about an unknown name.
import type { Model } from "../api/types";
import { parameters } from "../shared/format";
import { exactly, nearest, type Entry } from "../ui/entries";
import type { FieldFault } from "./faults";

const TYPES: Record<string, string> = { nlp: "Language", vision: "Vision", audio: "Audio", multimodal: "Multimodal" };

// As timm (vit_base_patch16_224, resnet50) and Hugging Face (org/name) spell them. These only decide which fields to show:
// looser than the rules of the service, which decides whether a name is valid.
const TIMM_NAME = /^(?=.*[\d_])[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z0-9_]+)?$/;
const HUB_ID = /^\w[^/\\:]*\/[^/\\:]+$/;

/** Where a model that is not in the catalog comes from: Hugging Face, timm, or a file or function of the server's. */
export type NameKind = "hub" | "timm" | "server";

/** How a name is spelled says where the model comes from; null if it has no such spelling. */
export function kindOfName(text: string): NameKind | null {
  const name = text.trim();
  if (name === "" || /\s/.test(name)) return null;
  if (name.startsWith("timm:") || TIMM_NAME.test(name)) return "timm";
  if (HUB_ID.test(name)) return "hub";
  return /[:/\\]/.test(name) ? "server" : null;
}

export function modelEntries(models: readonly Model[]): Entry[] {
  return models.map((model) => ({
    value: model.id,
    label: model.name,
    note: model.huggingface_id,
    detail: parameters(model.parameters),
    group: TYPES[model.type] ?? model.type,
    keywords: model.description,
  }));
}

/** A model that is not in the catalog but that the server may know. */
export function otherModel(text: string): Entry | null {
  return kindOfName(text) ? { value: text, label: text, group: "By its name" } : null;
}

/** The model of the catalog that is meant. */
export function knownModel(models: readonly Model[], text: string): Model | undefined {
  const wanted = text.trim().toLowerCase();
  const id = exactly(modelEntries(models), text)?.value;
  return models.find((model) => model.id === id) ?? models.find((model) => model.huggingface_id.toLowerCase() === wanted);
}

/** What is wrong with the name of a model; null if it may be one, or is empty. */
export function wrongModel(entries: readonly Entry[], text: string): FieldFault | null {
  const asked = text.trim();
  if (asked === "" || entries.length === 0 || exactly(entries, asked) || otherModel(asked)) return null;
  return {
    text: `No model is called “${asked}”.`,
    suggestions: nearest(entries, asked).map(({ value, label }) => ({ label, change: { model_name: value } })),
    isGuess: true,
  };
}

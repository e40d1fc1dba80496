// What the form holds.
import type { Option, Values } from "../api/types";
import { LENGTH, LENGTHS, textOf, valueOf } from "./option";

export interface Draft {
  /** As typed: the name of a model, or its id. */
  model: string;
  /** Whether the model is the pasted config instead of the named one. */
  isPasted: boolean;
  configText: string;
  /** What to call the pasted one; empty for the usual name. */
  configName: string;
  /** As typed; empty for the usual one. */
  gpu: string;
  /** The options that differ from their defaults, by name, each as it stands in its field. */
  options: Readonly<Record<string, string>>;
}

export const FIRST_DRAFT: Draft = {
  model: "bert",
  isPasted: false,
  configText: "",
  configName: "",
  gpu: "",
  options: {},
};

/** What stands in the field of an option. A link may hold an impossible choice, which becomes the default. */
export function textIn({ options }: Draft, option: Option): string {
  const text = options[option.name];
  const isChosen = option.type === "choice" || option.type === "flag";
  if (text === undefined || (isChosen && valueOf(option, text) === undefined)) return textOf(option.default);
  return text;
}

export function withText(draft: Draft, option: Option, text: string): Draft {
  const { [option.name]: _, ...others } = draft.options;
  return { ...draft, options: text === textOf(option.default) ? others : { ...others, [option.name]: text } };
}

/** The same draft without some options. */
export function without(draft: Draft, isForgotten: (name: string) => boolean): Draft {
  return { ...draft, options: Object.fromEntries(Object.entries(draft.options).filter(([name]) => !isForgotten(name))) };
}

/** The draft with other values, as a question or a suggestion has them; null resets one to its default. */
export function withValues(draft: Draft, values: Values): Draft {
  const { config, model_name: name, gpu, device, [LENGTHS]: lengths, ...others } = values;
  const next = { ...draft };
  if (config !== undefined) Object.assign(next, { isPasted: config !== null, configText: textOf(config) });
  if (name !== undefined) Object.assign(next, { [next.isPasted ? "configName" : "model"]: textOf(name) });
  if (gpu !== undefined) next.gpu = textOf(gpu);
  if (device) next.gpu = textOf(device);
  if (lengths) others[LENGTH] = lengths;
  const changed = Object.entries(others).map(([option, value]) => [option, textOf(value)] as const);
  const kept = Object.entries(draft.options).filter(([option]) => !(option in others));
  return { ...next, options: Object.fromEntries([...kept, ...changed.filter(([, text]) => text !== "")]) };
}

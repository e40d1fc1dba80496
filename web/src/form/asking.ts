// The question that the form asks.
import type { Values } from "../api/types";
import { configError, readConfig } from "./config-text";
import { textIn, type Draft } from "./draft";
import { DEVICE, isMeasured } from "./gpu-names";
import { kindOfName } from "./model-names";
import { LENGTHS, readCounts, textError, textOf, valueOf } from "./option";
import { sizeError, type SampleShape } from "./sample";
import { COMPARED, listedOptions, whyNot, type Situation } from "./situation";

/** What can be asked about what the form holds. */
export type Ask = "analysis" | "advice" | "gpus";
const ASKS: Record<Ask, Values> = { analysis: {}, advice: { advise: true }, gpus: { all_gpus: true } };

/** What is wrong, by option. */
export type DraftErrors = Record<string, string>;

/** What is wrong with the fields; unknown names are reported by the fields for names. */
export function draftErrors(situation: Situation, shape: SampleShape | null, ask: Ask): DraftErrors {
  const { draft, options } = situation;
  const configOption = options.find((option) => option.name === "config");
  const errors: [string, string | null][] = listedOptions(situation)
    .filter((option) => whyNot(option, situation) === null)
    .map((option) => [option.name, textError(option, textIn(draft, option))]);
  if (draft.isPasted) errors.push(["config", configError(draft.configText, configOption)]);
  else if (draft.model.trim() === "") errors.push(["model_name", "Choose a model."]);
  if (shape) errors.push([shape.option.name, sizeError(textIn(draft, shape.option), shape, ask === "analysis")]);
  return Object.fromEntries(errors.filter((entry): entry is [string, string] => entry[1] !== null));
}

/** The body of POST /jobs: the options that differ from their defaults, without those that do not apply to the model or the GPU. */
export function draftValues(situation: Situation, shape: SampleShape | null, ask: Ask): Values {
  const { draft } = situation;
  const listed = listedOptions(situation)
    .filter((option) => textIn(draft, option) !== textOf(option.default) && whyNot(option, situation) === null)
    .map((option) => [option.name, valueOf(option, textIn(draft, option))]);
  return {
    ...modelValues(draft),
    ...(ask === "gpus" ? {} : gpuValues(draft.gpu)),
    ...(shape ? sizeValues(draft, shape) : {}),
    ...Object.fromEntries(listed),
    ...(listed.some(([name]) => name === COMPARED) ? {} : ASKS[ask]),
  };
}

function modelValues({ isPasted, configText, configName, model, options }: Draft): Values {
  const name = (isPasted ? configName : model).trim();
  const revision = isPasted || kindOfName(name) !== "hub" ? "" : (options["revision"] ?? "").trim();
  return {
    ...(isPasted ? { config: readConfig(configText).config } : {}),
    ...(name ? { model_name: name } : {}),
    ...(options["task"] ? { task: options["task"] } : {}),
    ...(revision ? { revision } : {}),
    ...(options["trust_remote_code"] === "true" ? { trust_remote_code: true } : {}),
  };
}

function gpuValues(gpu: string): Values {
  if (DEVICE.test(gpu)) return { device: gpu };
  return isMeasured(gpu) || !gpu ? {} : { gpu };
}

function sizeValues(draft: Draft, shape: SampleShape): Values {
  const sizes = readCounts(textIn(draft, shape.option)) ?? [];
  if (sizes.length > 1) return { [LENGTHS]: sizes };
  return sizes.length === 1 ? { [shape.option.name]: sizes[0] } : {};
}

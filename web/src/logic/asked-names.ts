// The names in the form: what they mean, and what to say of one that means nothing.
import type { Gpu, Health, Model } from "../api/types";
import { DEVICE, HERE, type Draft } from "./draft";
import { bytes, parameters, shortGpuName } from "./format";
import { exactly, nearest, type Option } from "./options";

const TYPES: Record<string, string> = {
  nlp: "Language",
  vision: "Vision",
  audio: "Sound",
  multimodal: "Several senses",
};

// As timm spells them: vit_base_patch16_224, resnet50.
const TIMM_NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z0-9_]+)?$/;

/** A name that nothing has, and what may have been meant. */
export interface WrongName {
  text: string;
  near: Option[];
}

export function modelOptions(models: readonly Model[]): Option[] {
  return models.map((model) => ({
    value: model.id,
    label: model.name,
    note: model.huggingface_id,
    detail: parameters(model.parameters),
    group: TYPES[model.type] ?? model.type,
    keywords: model.description,
  }));
}

/** The server's GPU first, to measure on; then those of the catalog, to predict for. */
export function gpuOptions(gpus: readonly Gpu[], health: Health | undefined): Option[] {
  const here: Option[] = health?.gpu_available
    ? [
        {
          value: HERE,
          label: health.gpu_name ?? "The GPU of this server",
          detail: health.gpu_memory_total_gb ? `${health.gpu_memory_total_gb.toFixed(0)} GiB` : undefined,
          group: "Here: measured",
          aliases: gpus.filter((gpu) => gpu.here).flatMap((gpu) => [gpu.id, gpu.name]),
        },
      ]
    : [];
  const others = gpus
    .filter((gpu) => !(gpu.here && health?.gpu_available))
    .map((gpu) => ({
      value: gpu.id,
      label: gpu.name,
      detail: `${bytes(gpu.memory_bytes, 0)}${gpu.price ? ` · $${gpu.price.usd_per_hour.toFixed(2)}/h` : ""}`,
      group: "Elsewhere: predicted",
      aliases: [shortGpuName(gpu.name)],
    }));
  return [...here, ...others];
}

/** A model that is not of the catalog, which the server may know: org/name, timm:NAME, a path or a function. */
export function otherModel(text: string): Option | null {
  const isOne = !/\s/.test(text) && (/[:/\\]/.test(text) || (TIMM_NAME.test(text) && /[\d_]/.test(text)));
  return isOne ? { value: text, label: text, group: "By its name" } : null;
}

/** A device of the server that is named as torch does. */
export function otherDevice(text: string): Option | null {
  return DEVICE.test(text) ? { value: text, label: text, group: "Here: measured" } : null;
}

/** The model of the catalog that is meant. */
export function knownModel(models: readonly Model[], text: string): Model | undefined {
  const wanted = text.trim().toLowerCase();
  const id = exactly(modelOptions(models), text)?.value;
  return models.find((model) => model.id === id) ?? models.find((model) => model.huggingface_id.toLowerCase() === wanted);
}

/** What is wrong with the name of a model; null where it is one, or nothing is there. */
export function wrongModel(options: readonly Option[], text: string): WrongName | null {
  const asked = text.trim();
  if (asked === "" || options.length === 0 || exactly(options, asked) || otherModel(asked)) return null;
  return { text: `Nothing is called “${asked}”.`, near: nearest(options, asked) };
}

export function wrongGpu(options: readonly Option[], text: string): WrongName | null {
  const asked = text.trim();
  if (asked === "" || options.length === 0 || exactly(options, asked) || otherDevice(asked)) return null;
  return { text: asked === HERE ? "This server has no GPU to measure on." : `No GPU is called “${asked}”.`, near: nearest(options, asked) };
}

/** The same with names as the service knows them; what it does not list stays as it was typed. */
export function named(draft: Draft, models: readonly Option[], gpus: readonly Option[]): Draft {
  return {
    ...draft,
    model: exactly(models, draft.model)?.value ?? draft.model.trim(),
    gpu: exactly(gpus, draft.gpu)?.value ?? draft.gpu.trim(),
  };
}

// The size of a sample: what it counts, what is usual, and how it is typed.
import type { Model, SampleUnit, Task } from "../api/types";
import type { Draft } from "./draft";
import { count } from "./format";

/** What the service takes at the most. */
const MOST_LENGTHS = 32;

export interface SampleShape {
  unit: SampleUnit;
  label: string;
  field: "seq_len" | "image_size" | "audio_seconds";
  /** What is taken unless told. */
  usual: number | null;
  most: number | null;
  /** Whether the unit is sure; of a model by its id it is not, until its task is chosen. */
  isSure: boolean;
}

const NAMES: Record<SampleUnit, Pick<SampleShape, "label" | "field">> = {
  tokens: { label: "Sequence length", field: "seq_len" },
  pixels: { label: "Image size", field: "image_size" },
  seconds: { label: "Sound length", field: "audio_seconds" },
};

/** What the form knows of a sample. */
type Asked = Pick<Draft, "task"> & Partial<Pick<Draft, "model" | "isPasted" | "sampleUnit">>;

export function sampleShape(draft: Asked, model: Model | undefined, tasks: readonly Task[]): SampleShape {
  const task = tasks.find((entry) => entry.id === draft.task && entry.id !== model?.task);
  const known = task ?? model;
  const told = draft.sampleUnit || (!draft.isPasted && draft.model?.startsWith("timm:") ? "pixels" : undefined);
  const unit = known?.sample_unit ?? told ?? "tokens";
  return {
    unit,
    ...NAMES[unit],
    usual: task && !model ? null : (known?.sample_size ?? null),
    most: task ? null : (model?.max_sample_size ?? null),
    isSure: known !== undefined || told !== undefined,
  };
}

/** The numbers in `128, 512 2048`, each once; null if something else is there. */
export function readSizes(text: string): number[] | null {
  const parts = text.split(/[\s,;]+/).filter(Boolean);
  if (!parts.every((part) => /^[1-9]\d{0,8}$/.test(part))) return null;
  return [...new Set(parts.map(Number))];
}

/** What is wrong with the size as typed; nothing typed is right. */
export function sizeError(text: string, shape: SampleShape, mayBeSeveral: boolean): string | null {
  const sizes = readSizes(text);
  if (sizes === null) {
    return mayBeSeveral && shape.unit === "tokens" ? "Whole numbers, as in 128, 512." : "A whole number from 1.";
  }
  if (sizes.length > 1 && !(mayBeSeveral && shape.unit === "tokens")) return "One size at a time here.";
  if (sizes.length > MOST_LENGTHS) return `At most ${MOST_LENGTHS} lengths.`;
  if (shape.most !== null && sizes.some((size) => size > shape.most!)) {
    return `At most ${count(shape.most)} ${shape.unit}.`;
  }
  return null;
}

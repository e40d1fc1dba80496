// The size of a sample: what it counts, what is usual, and what is wrong with one that was typed.
import type { Model, Option, SampleUnit, Task } from "../api/types";
import { count } from "../shared/format";
import type { Draft } from "./draft";
import { kindOfName } from "./model-names";
import { isSampleSize, readCounts, textError } from "./option";

/** What the service takes at the most. */
const MOST_LENGTHS = 32;

export interface SampleShape {
  /** The option that sets the size. */
  option: Option;
  unit: SampleUnit;
  /** The default size. */
  usual: number | null;
  most: number | null;
  /** Whether the unit is certain; for a model named by its id it is not, until its task is chosen. */
  isSure: boolean;
}

/** Null while the service has not said which options there are. */
export function sampleShape(
  draft: Pick<Draft, "model" | "isPasted" | "options">,
  model: Model | undefined,
  tasks: readonly Task[],
  options: readonly Option[],
): SampleShape | null {
  const sizes = options.filter(isSampleSize);
  const task = tasks.find((entry) => entry.id === draft.options["task"] && entry.id !== model?.task);
  const known = task ?? model;
  const told = unitOf(sizes.find((option) => option.name in draft.options));
  const named = !draft.isPasted && kindOfName(draft.model) === "timm" ? "pixels" : undefined;
  const unit = known?.sample_unit ?? told ?? named ?? "tokens";
  const option = sizes.find((one) => unitOf(one) === unit);
  if (!option) return null;
  return {
    option,
    unit,
    usual: task && !model ? null : (known?.sample_size ?? null),
    most: task ? null : (model?.max_sample_size ?? null),
    isSure: (known?.sample_unit ?? told ?? named) !== undefined,
  };
}

function unitOf(option: Option | undefined): SampleUnit | undefined {
  return option?.sample_units?.[0] as SampleUnit | undefined;
}

/** What is wrong with the typed size; an empty field is fine. */
export function sizeError(text: string, shape: SampleShape, mayBeSeveral: boolean): string | null {
  const sizes = readCounts(text);
  const isList = mayBeSeveral && shape.unit === "tokens";
  if (sizes === null) return isList ? "Enter whole numbers, as in 128, 512." : textError(shape.option, text);
  if (sizes.length > 1 && !isList) return "Enter one size here.";
  if (sizes.length > MOST_LENGTHS) return `Enter at most ${MOST_LENGTHS} lengths.`;
  if (shape.most !== null && sizes.some((size) => size > shape.most!)) return `At most ${count(shape.most)} ${shape.unit}.`;
  return null;
}

// Which options go with the rest of a question.
import type { Option, SampleUnit } from "../api/types";
import { either } from "../shared/text";
import { textIn, type Draft } from "./draft";
import { LENGTHS, isSampleSize, labelOf } from "./option";

/** What decides whether an option applies. */
export interface Situation {
  draft: Draft;
  options: readonly Option[];
  /** What a sample is counted in; null where nobody knows. */
  unit: SampleUnit | null;
  isMeasured: boolean;
  isForAllGpus: boolean;
}

/** Options that have a control of their own, beside those of the size of a sample. */
const OWN_CONTROL = ["model_name", "config", "task", "revision", "trust_remote_code", "gpu", "device", LENGTHS];
/** The GPUs to compare, if not all. */
export const COMPARED = "compare_gpus";
/** What the buttons ask for. */
const BUTTONS = ["all_gpus", "advise"];

const MODELS: Record<string, string> = { tokens: "text", pixels: "image", seconds: "audio" };

/** The options of the form that have no control of their own, in the order in which they are declared. */
export function listedOptions({ options, isForAllGpus }: Pick<Situation, "options" | "isForAllGpus">): Option[] {
  return options.filter(
    (option) =>
      !OWN_CONTROL.includes(option.name) &&
      !BUTTONS.includes(option.name) &&
      !isSampleSize(option) &&
      !(isForAllGpus && (isOfOneGpu(option) || option.measured_only)) &&
      (isForAllGpus || option.name !== COMPARED),
  );
}

/** Whether it describes the GPU of a question about one GPU. */
function isOfOneGpu(option: Option): boolean {
  return option.group === "target" || option.name === "price_per_hour";
}

/** Why an option does not apply; null where it does. */
export function whyNot(option: Option, { draft, options, unit, isMeasured }: Situation): string | null {
  if (option.sample_units && unit && !option.sample_units.includes(unit)) {
    return `Only for ${either(option.sample_units.map((one) => MODELS[one] ?? one))} models.`;
  }
  if (option.measured_only && !isMeasured) return "Only on the server's own GPU: it cannot be predicted.";
  for (const [name, values] of Object.entries(option.needs ?? {})) {
    const other = options.find((one) => one.name === name);
    if (other && !values.includes(textIn(draft, other))) {
      return `Needs ${other.title}: ${either(values.map((value) => labelOf(other, value)))}.`;
    }
  }
  return null;
}

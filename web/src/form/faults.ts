// What is wrong with a field, and what may be put there instead.
import { ApiError } from "../api/errors";
import type { Suggestion } from "../api/types";
import { capitalized } from "../shared/text";
import { isSampleSize, LENGTHS } from "./option";
import type { SampleShape } from "./sample";
import { listedOptions, type Situation } from "./situation";

export interface FieldFault {
  text: string;
  suggestions: readonly Suggestion[];
  /** Whether the suggestions are names that may have been meant. */
  isGuess?: boolean;
}

/** What is wrong, by the option that a field sets. */
export type Faults = Readonly<Record<string, FieldFault>>;

/** The faults among these; null where there is none. */
export function faultsOf(some: Readonly<Record<string, FieldFault | string | null>>): Faults {
  const faults = Object.entries(some).flatMap(([name, fault]) =>
    fault === null ? [] : [[name, typeof fault === "string" ? { text: fault, suggestions: [] } : fault] as const],
  );
  return Object.fromEntries(faults);
}

/** What the service says about an option; null if it refused for another reason. */
export function refusedOption(error: unknown): { name: string; fault: FieldFault } | null {
  if (!(error instanceof ApiError) || !error.fault.field) return null;
  const { field, suggestions } = error.fault;
  return { name: field, fault: { text: capitalized(error.message), suggestions: suggestions ?? [] } };
}

/** The field of the form that shows what is wrong with an option; null where there is none. */
export function placeOf(
  name: string,
  { situation, shape }: { situation: Situation; shape: SampleShape | null },
): string | null {
  const option = situation.options.find((one) => one.name === name);
  if (["model_name", "config"].includes(name)) return situation.draft.isPasted ? "config" : "model_name";
  if (["gpu", "device"].includes(name)) return situation.isForAllGpus ? null : "gpu";
  if (name === LENGTHS || (option && isSampleSize(option))) return shape?.option.name ?? null;
  if (["task", "revision", "trust_remote_code"].includes(name)) return name;
  return option && listedOptions(situation).includes(option) ? name : null;
}

// The question of a job, to be asked again or otherwise.
import type { Job, Values } from "../api/types";
import { LENGTH, LENGTHS } from "../form/option";

/** The same question with a change made; null leaves an option out. */
export function changed(values: Values, change: Values): Values {
  return Object.fromEntries(Object.entries({ ...values, ...change }).filter(([, value]) => value !== null));
}

/** What asks the question of a job again, or that of one GPU or one length of its result; null if it cannot be asked again. */
export function askedValues({ options, kind }: Pick<Job, "options" | "kind">, part: string | null = null): Values | null {
  if (!options) return null;
  if (part === null) return options;
  const oneGpu = { gpu: part, all_gpus: null, compare_gpus: null };
  const one = kind === "comparison" ? oneGpu : { [LENGTH]: Number(part), [LENGTHS]: null };
  return changed(options, one);
}

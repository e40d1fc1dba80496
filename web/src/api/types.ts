// Short names for the types of the service. schema.ts is generated; these only point into it.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Advice = Schemas["Advice"];
export type AdviceOption = Advice["options"][number];
export type Analysis = Schemas["Analysis"];
export type Code = AdviceOption["code"];
export type Comparison = Schemas["Comparison"];
export type Contender = Comparison["gpus"][number];
export type Gpu = Schemas["GpusAnswer"]["gpus"][number];
export type Health = Schemas["Health"];
export type Job = Schemas["JobAnswer"]["job"] & { problem: Fault | null };
export type JobEvent = Schemas["EventsAnswer"]["events"][number];
export type JobSummary = Schemas["JobsAnswer"]["jobs"][number];
export type Model = Schemas["ModelsAnswer"]["models"][number];
export type Option = Schemas["OptionsAnswer"]["options"][number];
export type Recipe = Analysis["recipe"];
export type Recording = NonNullable<Health["recording"]>;
export type Sweep = Schemas["Sweep"];
export type GridSweep = Schemas["SweepAnswer"]["sweep"];
export type GridSweepSummary = Schemas["SweepsAnswer"]["sweeps"][number];
export type SweepAxis = GridSweep["axes"][number];
export type SweepCase = GridSweep["cases"][number];
export type SweepGroup = NonNullable<GridSweep["groups"]>[number];
export type Task = Schemas["ModelsAnswer"]["tasks"][number];
export type Trial = Analysis["trials"][number];
export type Breakdown = NonNullable<Trial["breakdown"]>;

export type State = JobSummary["state"];
export type ErrorKind = NonNullable<JobSummary["error_kind"]>;
export type Source = Analysis["source"];
export type SampleUnit = Model["sample_unit"];

/** Values of options by name, as POST /jobs takes them; null leaves an option out. */
export type Values = Record<string, unknown>;

/** A change to a question that may help; one that was checked also gives its largest batch. */
export type Suggestion = { label: string; change: Values } & Partial<
  Pick<Schemas["Suggestion"], "max_batch_size" | "device_bytes" | "total_bytes" | "host_bytes" | "missed_margin">
>;

/** An error as data: the option it is about, and what may be asked instead. */
export interface Fault {
  code?: string | null;
  field?: string | null;
  suggestions?: Suggestion[] | null;
}

/** The result of a job, told apart by the kind of question. */
export type Answer =
  | { kind: "analysis"; result: Analysis }
  | { kind: "comparison"; result: Comparison }
  | { kind: "sweep"; result: Sweep }
  | { kind: "advice"; result: Advice };

/** Null where there is no result. */
export function answerOf(job: Pick<Job, "kind" | "result">): Answer | null {
  return job.result && ({ kind: job.kind, result: job.result } as Answer);
}

export function isFinished(state: State): boolean {
  return state !== "queued" && state !== "running";
}

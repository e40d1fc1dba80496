// Short names for the types of the service. schema.ts is generated; these only point into it.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Advice = Schemas["Advice"];
export type AdviceOption = Schemas["OptionView"];
export type Code = Schemas["CodeView"];
export type Analysis = Schemas["Analysis"];
export type Breakdown = Schemas["Breakdown"];
export type Comparison = Schemas["Comparison"];
export type Contender = Schemas["Contender"];
export type Gpu = Schemas["GpuView"];
export type Health = Schemas["Health"];
export type Job = Schemas["JobView"];
export type JobAnswer = Schemas["JobAnswer"];
export type JobEvent = Schemas["EventView"];
export type JobSummary = Schemas["JobSummary"];
export type Model = Schemas["ModelView"];
export type Price = Schemas["Price"];
export type Question = Schemas["QuestionView"];
export type Recipe = Schemas["RecipeView"];
export type Request = Schemas["RequestView"];
export type Trial = Schemas["Trial"];
export type Usage = Schemas["UsageView"];

export type Suggestion = Schemas["SuggestionView"];
export type Sweep = Schemas["Sweep"];
export type Task = Schemas["TaskView"];
export type Result = Analysis | Comparison | Sweep | Advice;

export type State = JobSummary["state"];
export type ErrorKind = NonNullable<JobSummary["error_kind"]>;
export type Source = Analysis["source"];
export type SampleUnit = Model["sample_unit"];
export type Precision = Recipe["precision"];
export type Optimizer = Recipe["optimizer"];
export type Attention = NonNullable<Recipe["attention"]>;
export type Loss = Recipe["loss"];

/** What POST /jobs takes. */
export type JobBody = Partial<Schemas["JobBody"]>;

/** The same training on every GPU. */
export function isComparison(result: Result): result is Comparison {
  return "gpus" in result;
}

/** The same training at several lengths. */
export function isSweep(result: Result): result is Sweep {
  return "lengths" in result;
}

/** What to change. */
export function isAdvice(result: Result): result is Advice {
  return "verdict" in result;
}

export function isFinished(state: State): boolean {
  return state !== "queued" && state !== "running";
}

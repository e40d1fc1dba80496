// A job in a list, in a few words.
import type { Gpu, Job, JobSummary, Model, Source } from "../api/types";
import { count, shortGpuName, speedup } from "../shared/format";
import { capitalized } from "../shared/text";
import { contestWords } from "./contest";

/** The model and where it trains: `BERT base on A10`. */
export function jobName(
  job: Pick<JobSummary, "model_name" | "target" | "headline">,
  models: readonly Model[],
  gpus: readonly Gpu[],
): string {
  return `${modelName(job.model_name, models)} on ${shortGpuName(placeName(job, gpus))}`;
}

export function modelName(id: string, models: readonly Model[]): string {
  return models.find((model) => model.id === id || model.huggingface_id === id)?.name ?? id;
}

/** Where it trains. */
export function placeName(job: Pick<JobSummary, "target" | "headline">, gpus: readonly Gpu[]): string {
  if (job.target === "all") return "all GPUs";
  const name = job.headline?.gpu_name ?? gpus.find((gpu) => gpu.id === job.target)?.name;
  return name ?? (job.target === "auto" ? "the server's GPU" : job.target);
}

/** What sets it apart from other questions about the same model and GPU; of advice, also the recipe that it leads to. */
export function askedWords(job: JobSummary): string {
  const { recipe_words: recipe, sample_words: sample, current_batch_size: today, headline } = job;
  const advised = headline?.recommended_recipe;
  return [advised && advised !== recipe ? `${recipe} → ${advised}` : recipe, sample, `batch ${count(today)} today`].filter(Boolean).join(" · ");
}

/** Its outcome. */
export function summaryWords(job: JobSummary, gpus: readonly Gpu[] = []): string {
  const { headline } = job;
  if (!headline) return job.error ? capitalized(job.error) : "No answer yet";
  const contest = contestWords(headline, (id) => shortGpuName(gpus.find((gpu) => gpu.id === id)?.name ?? id));
  if (contest) return contest;
  if (foundNothing(job)) return `Nothing is worth changing · ${headline.source}`;
  return [
    headline.recommended_batch_size === null ? null : `use ${count(headline.recommended_batch_size)}`,
    headline.max_batch_size === null ? null : `maximum ${count(headline.max_batch_size)}`,
    headline.speedup === null ? null : speedup(headline.speedup),
    headline.source,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** An advice to change nothing. */
export function foundNothing({ kind, headline }: JobSummary): boolean {
  return kind === "advice" && headline !== null && headline.recommended_batch_size === null;
}

/** A job that was stopped before its end, and so has no result. */
export function isStopped(job: Pick<JobSummary, "state">): boolean {
  return job.state === "cancelled" || job.state === "interrupted";
}

/** A result that can stand beside others: one GPU, at one length or at the one to plan for. */
export function isComparable(job: JobSummary): boolean {
  return job.state === "done" && (job.kind === "analysis" || job.kind === "sweep");
}

/** Whether it is to be measured or predicted, before there is an answer that says so. */
export function plannedSource({ kind, options }: Pick<Job, "kind" | "options">): Source {
  return kind === "comparison" || options?.["gpu"] ? "predicted" : "measured";
}

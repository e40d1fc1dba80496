// How a job ended, in one sentence.
import { isAdvice, isComparison, isFinished, isSweep, type Job } from "../api/types";
import { adviceHeadline, analysisHeadline, comparisonHeadline, doesNotFitHeadline, sweepHeadline } from "./headline";
import { jobProblem } from "./problems";

/** What the page says of it at its top; null while it is not over. */
export function outcome(job: Job, model: string): string | null {
  if (!isFinished(job.state)) return null;
  const { result } = job;
  if (!result) return job.error_kind === "does_not_fit" ? doesNotFitHeadline(model).sentence : jobProblem(job).title;
  if (isAdvice(result)) return adviceHeadline(result).sentence;
  if (isComparison(result)) return comparisonHeadline(result).sentence;
  return isSweep(result) ? sweepHeadline(result).sentence : analysisHeadline(result).sentence;
}

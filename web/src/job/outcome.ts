// How a job ended, in one sentence.
import { adviceHeadline } from "../advice/headline";
import { analysisHeadline } from "../answer/headline";
import { answerOf, isFinished, type Answer, type Job } from "../api/types";
import { comparisonHeadline } from "../gpus/headline";
import { sweepHeadline } from "../lengths/headline";
import { sentenceOf, type Headline } from "../result/headline";
import { jobProblem } from "../shared/problems";

/** What the page says of it at its top; null while it is not over. */
export function outcome(job: Job, model: string): string | null {
  if (!isFinished(job.state)) return null;
  const answer = answerOf(job);
  return sentenceOf(answer ? answerHeadline(answer) : endedHeadline(job, model));
}

function answerHeadline({ kind, result }: Answer): Headline {
  switch (kind) {
    case "analysis":
      return analysisHeadline(result);
    case "comparison":
      return comparisonHeadline(result);
    case "sweep":
      return sweepHeadline(result);
    case "advice":
      return adviceHeadline(result);
  }
}

/** A job that ended without an answer. */
export function endedHeadline(job: Job, model: string): Headline {
  if (job.error_kind === "does_not_fit") {
    return { lead: `${model} does not fit, not even one sample at a time`, tone: "bad" };
  }
  return { lead: jobProblem(job).title, tone: job.state === "failed" ? "bad" : "neutral" };
}

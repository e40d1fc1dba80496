import { AdviceView } from "../advice/AdviceView";
import { AnalysisView } from "../answer/AnalysisView";
import { ApiError } from "../api/errors";
import { useJob, useModels } from "../api/queries";
import { answerOf, isFinished, type Job } from "../api/types";
import { ComparisonView } from "../gpus/ComparisonView";
import { SweepView } from "../lengths/SweepView";
import { modelName } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { RunningView } from "../running/RunningView";
import { useTitle } from "../shared/use-title";
import { EndedView } from "./EndedView";
import { JobLoading } from "./JobLoading";
import { outcome } from "./outcome";
import { UnknownJob } from "./UnknownJob";
import { useOutcomeTold } from "./use-outcome-told";

interface JobPageProps {
  id: string;
  /** One GPU of a comparison, or one length of a sweep. */
  part: string | null;
}

export function JobPage({ id, part }: JobPageProps) {
  const { data: job, error } = useJob(id);
  const { nameOf } = useJobNames();
  const { data: models = [] } = useModels();
  useTitle(job ? nameOf(job) : "Job");
  useOutcomeTold(job, job ? outcome(job, modelName(job.model_name, models)) : null);
  if (job) return <JobView job={job} part={part} />;
  if (error instanceof ApiError && error.status !== 401) return <UnknownJob error={error} />;
  return <JobLoading />;
}

/** The job, by the state it is in and the kind of question it is. */
function JobView({ job, part }: { job: Job; part: string | null }) {
  const { data: models = [] } = useModels();
  const model = modelName(job.model_name, models);
  if (!isFinished(job.state)) return <RunningView job={job} model={model} />;
  const answer = answerOf(job);
  if (!answer) return <EndedView job={job} model={model} />;
  if (answer.kind === "advice") return <AdviceView job={job} advice={answer.result} model={model} />;
  if (answer.kind === "analysis") return <AnalysisView job={job} analysis={answer.result} model={model} />;
  const analysis = part ? answer.result.analyses[part] : undefined;
  if (analysis) return <AnalysisView key={part} job={job} analysis={analysis} model={model} part={part} />;
  if (answer.kind === "sweep") return <SweepView job={job} sweep={answer.result} model={model} />;
  return <ComparisonView job={job} comparison={answer.result} model={model} />;
}

import { AdviceView } from "../answer/AdviceView";
import { AnalysisView } from "../answer/AnalysisView";
import { ApiError } from "../api/client";
import { isAdvice, isComparison, isFinished, isSweep, type Job } from "../api/types";
import { ComparisonView } from "../compare/ComparisonView";
import { SweepView } from "../compare/SweepView";
import { useJob, useModels } from "../hooks/queries";
import { useJobNames } from "../hooks/use-job-names";
import { useOutcomeTold } from "../hooks/use-outcome-told";
import { useTitle } from "../hooks/use-title";
import { outcome } from "../logic/outcome";
import { modelName } from "../logic/summary";
import { EndedView } from "../running/EndedView";
import { JobLoading } from "../running/JobLoading";
import { RunningView } from "../running/RunningView";
import { UnknownJob } from "../running/UnknownJob";

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

/** The job, by the state it is in. */
function JobView({ job, part }: { job: Job; part: string | null }) {
  const { data: models = [] } = useModels();
  const model = modelName(job.model_name, models);
  if (!isFinished(job.state)) return <RunningView job={job} model={model} />;
  if (!job.result) return <EndedView job={job} model={model} />;
  const { result } = job;
  if (isAdvice(result)) return <AdviceView job={job} advice={result} model={model} />;
  if (!isComparison(result) && !isSweep(result)) return <AnalysisView job={job} analysis={result} model={model} />;
  const analysis = part ? result.analyses[part] : undefined;
  if (analysis) return <AnalysisView key={part} job={job} analysis={analysis} model={model} part={part} />;
  if (isSweep(result)) return <SweepView job={job} sweep={result} model={model} />;
  return <ComparisonView job={job} comparison={result} model={model} />;
}

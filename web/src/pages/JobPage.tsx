import { AnalysisView } from "../answer/AnalysisView";
import { ApiError } from "../api/client";
import { isComparison, isFinished, type Job } from "../api/types";
import { ComparisonView } from "../compare/ComparisonView";
import { useJob, useModels } from "../hooks/queries";
import { useTitle } from "../hooks/use-title";
import { useJobNames } from "../hooks/use-job-names";
import { modelName } from "../logic/summary";
import { EndedView } from "../running/EndedView";
import { JobLoading } from "../running/JobLoading";
import { RunningView } from "../running/RunningView";
import { UnknownJob } from "../running/UnknownJob";

interface JobPageProps {
  id: string;
  /** One GPU of a comparison. */
  gpu: string | null;
}

export function JobPage({ id, gpu }: JobPageProps) {
  const { data: job, error } = useJob(id);
  const { nameOf } = useJobNames();
  useTitle(job ? nameOf(job) : "Job");
  if (job) return <JobView job={job} gpu={gpu} />;
  if (error instanceof ApiError && error.status !== 401) return <UnknownJob error={error} />;
  return <JobLoading />;
}

/** The job, by the state it is in. */
function JobView({ job, gpu }: { job: Job; gpu: string | null }) {
  const { data: models = [] } = useModels();
  const model = modelName(job.model_name, models);
  if (!isFinished(job.state)) return <RunningView job={job} model={model} />;
  if (!job.result) return <EndedView job={job} model={model} />;
  if (!isComparison(job.result)) return <AnalysisView job={job} analysis={job.result} model={model} />;
  const analysis = gpu ? job.result.analyses[gpu] : undefined;
  if (analysis) return <AnalysisView key={gpu} job={job} analysis={analysis} model={model} isPartOfComparison />;
  return <ComparisonView job={job} comparison={job.result} model={model} />;
}

import { useGpus, useModels } from "../api/queries";
import type { JobSummary } from "../api/types";
import { jobName, placeName, summaryWords } from "./summary";

type Named = Pick<JobSummary, "model_name" | "target" | "headline">;

/** Names jobs as people do, as far as the catalogs are loaded. */
export function useJobNames(): {
  nameOf: (job: Named) => string;
  placeOf: (job: Named) => string;
  outcomeOf: (job: JobSummary) => string;
} {
  const { data: models = [] } = useModels();
  const { data: gpus = [] } = useGpus();
  return {
    nameOf: (job) => jobName(job, models, gpus),
    placeOf: (job) => placeName(job, gpus),
    outcomeOf: (job) => summaryWords(job, gpus),
  };
}

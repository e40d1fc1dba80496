import type { Job } from "../api/types";
import { link } from "../shared/route";
import { FIRST_DRAFT, withValues } from "../form/draft";
import { draftQuery } from "../form/draft-address";
import { keptConfigs } from "../form/session";
import { LinkButton } from "../ui/Button";
import { askedValues } from "./asked";

interface ChangeQuestionProps {
  job: Job;
  /** One GPU, or one length, of a result that has several. */
  part?: string | null;
}

/** Opens the form with the question of a job. */
export function ChangeQuestion({ job, part = null }: ChangeQuestionProps) {
  const values = askedValues(job, part);
  if (!values) return null;
  const { all_gpus: isForAllGpus, advise: _, ...asked } = values;
  const isComparison = isForAllGpus || (Array.isArray(asked["compare_gpus"]) && asked["compare_gpus"].length > 0);
  const question = draftQuery(withValues(FIRST_DRAFT, asked), keptConfigs);
  return <LinkButton href={isComparison ? link.gpus(question) : link.analyze(question)}>Change the question</LinkButton>;
}

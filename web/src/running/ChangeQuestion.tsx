import { keptConfigs } from "../api/session";
import type { Job, Request } from "../api/types";
import { draftOf } from "../logic/draft";
import { draftQuery } from "../logic/draft-address";
import { link } from "../logic/route";
import { LinkButton } from "../ui/Button";

interface ChangeQuestionProps {
  job: Job;
  /** Of a part of a result that has several. */
  request?: Request;
}

/** Opens the form with the question of a job. */
export function ChangeQuestion({ job, request }: ChangeQuestionProps) {
  const question = draftQuery(draftOf(job.question, request), keptConfigs);
  const isForAllGpus = job.question.all_gpus && !request;
  return <LinkButton href={isForAllGpus ? link.gpus(question) : link.analyze(question)}>Change the question</LinkButton>;
}

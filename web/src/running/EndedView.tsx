import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { AskAdvice } from "../answer/AskAdvice";
import { api } from "../api/client";
import type { Job } from "../api/types";
import { useGpus, useModels, useSubmit } from "../hooks/queries";
import { useJobNames } from "../hooks/use-job-names";
import { adviceOn, questionBody } from "../logic/draft";
import { doesNotFitHeadline, type Headline } from "../logic/headline";
import { NOTHING_YET, advance } from "../logic/job-progress";
import { askProblem, jobProblem } from "../logic/problems";
import { waysToFit } from "../logic/ways-to-fit";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { ErrorBox } from "../ui/ErrorBox";
import { AnalyzeAnother } from "./AnalyzeAnother";
import { ChangeQuestion } from "./ChangeQuestion";
import { HeadlineCard } from "./HeadlineCard";
import { JobTitle } from "./JobTitle";
import { Terminal } from "./Terminal";

interface EndedViewProps {
  job: Job;
  model: string;
}

/** A job that ended without an answer: why, and what can be done. */
export function EndedView({ job, model }: EndedViewProps) {
  const { placeOf } = useJobNames();
  const submit = useSubmit();
  const [isOpen, setOpen] = useState(true);
  const { data: happened } = useQuery({
    queryKey: ["events", job.id],
    queryFn: ({ signal }) => api.events(job.id, 0, { signal }),
    staleTime: Infinity,
  });
  const progress = advance(NOTHING_YET, happened?.events ?? []);
  const problem = jobProblem(job);
  const fits = job.error_kind !== "does_not_fit";
  const headline: Headline = fits
    ? { sentence: problem.title, tone: job.state === "failed" ? "bad" : "neutral" }
    : doesNotFitHeadline(model);
  const { request, all_gpus: isForAllGpus } = job.question;
  return (
    <div className="space-y-6">
      <JobTitle
        model={model}
        place={placeOf(job)}
        recipe={request.recipe}
        sample={job.sample_words ?? undefined}
        source={isForAllGpus || request.target.gpu ? "predicted" : "measured"}
      >
        {problem.retry && (
          <Button
            onClick={() => submit.mutate({ ...questionBody(job.question), fresh: true })}
            disabled={submit.isPending}
          >
            Run again
          </Button>
        )}
        <ChangeQuestion job={job} />
        <AnalyzeAnother />
      </JobTitle>
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
      <HeadlineCard
        headline={headline}
        detail={job.state === "failed" ? "There is no answer to this question as it was asked." : problem.text}
      />
      {job.state === "failed" && isOpen && <ErrorBox problem={problem} onDismiss={() => setOpen(false)} />}
      {!fits && <WaysToFit job={job} onTry={submit.mutate} isBusy={submit.isPending} />}
      <Terminal lines={progress.lines} startedAt={progress.startedAt} isRunning={false} className="h-80" />
    </div>
  );
}

interface WaysToFitProps {
  job: Job;
  onTry: ReturnType<typeof useSubmit>["mutate"];
  isBusy: boolean;
}

function WaysToFit({ job, onTry, isBusy }: WaysToFitProps) {
  const { data: models = [] } = useModels();
  const { data: gpus = [] } = useGpus();
  const { model: id } = job.question.request;
  const model = models.find((entry) => entry.id === id || entry.huggingface_id === id);
  const ways = waysToFit(job.question, model, gpus, job.error ?? "");
  return (
    <Card
      title="What to try"
      note="Each asks the same question with one thing changed."
      action={
        !job.question.advise && <AskAdvice body={adviceOn(job.question)} label="Find the least change that makes it fit" />
      }
    >
      <div className="flex min-h-10 flex-wrap gap-3">
        {ways.map((way) => (
          <Button key={way.label} onClick={() => onTry(way.body)} disabled={isBusy}>
            {way.label}
          </Button>
        ))}
      </div>
    </Card>
  );
}

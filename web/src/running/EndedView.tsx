import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { AskAdvice } from "../answer/AskAdvice";
import { api } from "../api/client";
import type { Job, Suggestion } from "../api/types";
import { useSubmit } from "../hooks/queries";
import { useJobNames } from "../hooks/use-job-names";
import { adviceOn, questionBody } from "../logic/draft";
import { doesNotFitHeadline, type Headline } from "../logic/headline";
import { NOTHING_YET, advance } from "../logic/job-progress";
import { askProblem, jobProblem, sentence } from "../logic/problems";
import { changedBody, hasRecipeAlone, reachWords } from "../logic/suggestions";
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
      {job.suggestions && (
        <WhatFits job={job} suggestions={job.suggestions} onTry={submit.mutate} isBusy={submit.isPending} />
      )}
      <Terminal lines={progress.lines} startedAt={progress.startedAt} isRunning={false} className="h-80" />
    </div>
  );
}

interface WhatFitsProps {
  job: Job;
  suggestions: readonly Suggestion[];
  onTry: ReturnType<typeof useSubmit>["mutate"];
  isBusy: boolean;
}

/** What was checked to fit instead: a press asks for it. */
function WhatFits({ job, suggestions, onTry, isBusy }: WhatFitsProps) {
  if (suggestions.length === 0) {
    return (
      <Card title="What to try">
        <p className="text-sm text-soft">
          Nothing that was checked helps: it fits no GPU of the catalog as it is, nor with any change of the recipe.
        </p>
      </Card>
    );
  }
  const canAdvise = !job.question.advise && !job.question.all_gpus && hasRecipeAlone(suggestions);
  return (
    <Card
      title="What to try"
      note="Each was checked by prediction. A press asks the same question with this change."
      action={canAdvise && <AskAdvice body={adviceOn(job.question)} label="See all ways to make it fit" />}
    >
      <ul className="divide-y divide-line">
        {suggestions.map((suggestion) => (
          <li
            key={suggestion.label}
            className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-3 first:pt-0 last:pb-0"
          >
            <span className="min-w-0">
              <span className="block font-medium">{sentence(suggestion.label)}</span>
              <span className="block text-sm text-soft">{reachWords(suggestion)}</span>
            </span>
            <Button
              aria-label={`Analyze this: ${suggestion.label}`}
              onClick={() => onTry(changedBody(job.question, suggestion))}
              disabled={isBusy}
            >
              Analyze this
            </Button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

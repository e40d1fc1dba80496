import { useState } from "react";
import { usePastEvents } from "../api/queries";
import type { Job } from "../api/types";
import { NOTHING_YET, advance } from "../events/job-progress";
import { Terminal } from "../events/Terminal";
import { useSubmit } from "../form/use-submit";
import { AnalyzeAnother } from "../result/AnalyzeAnother";
import { askedValues } from "../result/asked";
import { ChangeQuestion } from "../result/ChangeQuestion";
import { HeadlineCard } from "../result/HeadlineCard";
import { JobTitle } from "../result/JobTitle";
import { plannedSource } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { askProblem, jobProblem } from "../shared/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { endedHeadline } from "./outcome";
import { WhatToTry } from "./WhatToTry";

interface EndedViewProps {
  job: Job;
  model: string;
}

/** A job that ended without an answer: why, and what can be done. */
export function EndedView({ job, model }: EndedViewProps) {
  const { placeOf } = useJobNames();
  const submit = useSubmit();
  const [isOpen, setOpen] = useState(true);
  const { data: happened } = usePastEvents(job.id);
  const progress = advance(NOTHING_YET, happened?.events ?? []);
  const problem = jobProblem(job);
  const values = askedValues(job);
  const suggestions = job.suggestions ?? job.problem?.suggestions;
  return (
    <div className="space-y-6">
      <JobTitle job={job} model={model} place={placeOf(job)} source={plannedSource(job)}>
        {problem.retry && values && (
          <Button onClick={() => submit.mutate({ ...values, fresh: true })} disabled={submit.isPending}>
            Run again
          </Button>
        )}
        <ChangeQuestion job={job} />
        <AnalyzeAnother />
      </JobTitle>
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
      <HeadlineCard
        headline={endedHeadline(job, model)}
        detail={job.state === "failed" ? "This question has no answer as it was asked." : problem.text}
      />
      {job.state === "failed" && isOpen && <ErrorBox problem={problem} onDismiss={() => setOpen(false)} />}
      {suggestions && <WhatToTry job={job} suggestions={suggestions} onTry={submit.mutate} isBusy={submit.isPending} />}
      <Terminal lines={progress.lines} startedAt={progress.startedAt} isRunning={false} className="h-80" />
    </div>
  );
}

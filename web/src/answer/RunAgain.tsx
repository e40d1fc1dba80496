import type { Job } from "../api/types";
import { useSubmit, useWasReused } from "../hooks/queries";
import { questionBody } from "../logic/draft";
import { ago } from "../logic/format";
import { askProblem } from "../logic/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";

/** Says that the answer was already there, and asks for a fresh one. */
export function RunAgain({ job }: { job: Job }) {
  const submit = useSubmit();
  const wasReused = useWasReused(job.id);
  return (
    <div className="flex flex-wrap items-center gap-3">
      {wasReused && <p className="text-sm text-soft">Already answered {ago(job.created_at)}.</p>}
      <Button onClick={() => submit.mutate({ ...questionBody(job.question), fresh: true })} disabled={submit.isPending}>
        Run again
      </Button>
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
    </div>
  );
}

import type { Job } from "../api/types";
import { useSubmit, useWasReused } from "../form/use-submit";
import { ago } from "../shared/format";
import { askProblem } from "../shared/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { askedValues } from "./asked";
import { isRecorded } from "./recorded";

/** Says that the answer was already there, and asks for a fresh one. */
export function RunAgain({ job }: { job: Job }) {
  const submit = useSubmit();
  const wasReused = useWasReused(job.id);
  const values = askedValues(job);
  return (
    <div className="flex flex-wrap items-center gap-3">
      {wasReused && <p className="text-sm text-soft">Already answered {ago(job.created_at)}.</p>}
      {values && (
        <Button onClick={() => submit.mutate({ ...values, fresh: true })} disabled={submit.isPending}>
          {isRecorded(job) ? "Play again" : "Run again"}
        </Button>
      )}
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
    </div>
  );
}

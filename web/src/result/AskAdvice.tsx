import type { Job } from "../api/types";
import { useSubmit } from "../form/use-submit";
import { askProblem } from "../shared/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { askedValues, changed } from "./asked";

interface AskAdviceProps {
  job: Job;
  /** One GPU, or one length, of a result that has several. */
  part?: string | null;
  label?: string;
}

/** Asks what to change about a training. */
export function AskAdvice({ job, part = null, label = "What should I change?" }: AskAdviceProps) {
  const submit = useSubmit();
  const values = askedValues(job, part);
  if (!values) return null;
  return (
    <>
      <Button onClick={() => submit.mutate(changed(values, { advise: true }))} disabled={submit.isPending}>
        {label}
      </Button>
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
    </>
  );
}

import type { JobBody } from "../api/types";
import { useSubmit } from "../hooks/queries";
import { askProblem } from "../logic/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";

/** Asks what to change about a training. */
export function AskAdvice({ body, label = "What should I change?" }: { body: JobBody; label?: string }) {
  const submit = useSubmit();
  return (
    <>
      <Button onClick={() => submit.mutate(body)} disabled={submit.isPending}>
        {label}
      </Button>
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
    </>
  );
}

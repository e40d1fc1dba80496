import { useState } from "react";
import { callProblem } from "../shared/problems";
import { link } from "../shared/route";
import { goTo } from "../shared/use-route";
import { LinkButton } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";

/** A link to a job that the server does not have. */
export function UnknownJob({ error }: { error: Error }) {
  const [isOpen, setOpen] = useState(true);
  return (
    <div className="mx-auto max-w-2xl space-y-6 py-8">
      <h1 className="text-2xl font-semibold">No result at this link</h1>
      {isOpen && <ErrorBox problem={callProblem(error)} onDismiss={() => setOpen(false)} />}
      <div className="flex flex-wrap gap-3">
        <LinkButton href={link.history()}>Look in the history</LinkButton>
        <LinkButton look="primary" href={link.analyze()} onClick={() => goTo(link.analyze())}>
          Start an analysis
        </LinkButton>
      </div>
    </div>
  );
}

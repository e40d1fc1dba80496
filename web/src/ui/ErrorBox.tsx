import type { ReactNode } from "react";
import type { Problem } from "../shared/problems";
import { CloseIcon, WarningIcon } from "./icons";

interface ErrorBoxProps {
  problem: Problem;
  onDismiss: () => void;
  children?: ReactNode;
}

/** What went wrong, in red, until it is dismissed. */
export function ErrorBox({ problem, onDismiss, children }: ErrorBoxProps) {
  return (
    <div role="alert" className="flex gap-3 rounded-xl border border-bad/70 bg-[#2a1212] p-4 text-sm">
      <WarningIcon className="mt-0.5 size-5 shrink-0 text-bad-ink" />
      <div className="min-w-0 grow">
        <p className="font-semibold text-[#ffb3b3]">{problem.title}</p>
        <p className="mt-0.5 text-[#f0d0d0]">{problem.text}</p>
        {children && <div className="mt-3 flex flex-wrap gap-2">{children}</div>}
      </div>
      <button
        type="button"
        aria-label="Dismiss"
        onClick={onDismiss}
        className="-m-2 grid size-10 shrink-0 place-items-center rounded-lg text-[#f0d0d0] hover:bg-bad/20"
      >
        <CloseIcon className="size-4" />
      </button>
    </div>
  );
}

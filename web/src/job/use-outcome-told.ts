import { useEffect, useRef } from "react";
import type { Job } from "../api/types";
import { announce } from "../shared/announce";

// The place is read out only if it is there, and empty, before the words are.
const AFTER_MS = 150;

/** Tells how a job ended to those who do not see it, and keeps a focus that went with the buttons of a running job. */
export function useOutcomeTold(job: Job | undefined, outcome: string | null): void {
  const wasWatched = useRef(false);
  const isUnderWay = job !== undefined && outcome === null;
  useEffect(() => {
    if (isUnderWay) wasWatched.current = true;
  }, [isUnderWay]);
  useEffect(() => {
    if (outcome === null) return;
    if (wasWatched.current && document.activeElement === document.body) focusHeadline();
    const timer = setTimeout(() => announce(outcome), AFTER_MS);
    return () => {
      clearTimeout(timer);
      announce("");
    };
  }, [outcome]);
}

function focusHeadline(): void {
  const headline = document.querySelector<HTMLElement>("main h1");
  if (!headline) return;
  headline.tabIndex = -1;
  headline.focus({ preventScroll: true });
}

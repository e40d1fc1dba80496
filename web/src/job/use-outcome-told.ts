import { useEffect, useRef } from "react";
import type { Job } from "../api/types";
import { announce } from "../shared/announce";

// A live region is read out only if it exists, empty, before its text.
const AFTER_MS = 150;

/** Tells screen readers how a job ended, and keeps the focus when the buttons of a running job disappear. */
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

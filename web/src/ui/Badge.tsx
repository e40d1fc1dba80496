import type { ReactNode } from "react";
import type { Source, State } from "../api/types";

const TONES = {
  good: "border-accent/50 text-accent",
  info: "border-sky/50 text-sky",
  warn: "border-warn/50 text-warn",
  bad: "border-bad/60 text-bad-ink",
  plain: "border-edge text-soft",
};

export type Tone = keyof typeof TONES;

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center rounded-full border px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {children}
    </span>
  );
}

/** Whether numbers come from steps that ran or from a prediction of them. */
export function SourceBadge({ source }: { source: Source }) {
  return <Badge tone={source === "measured" ? "good" : "info"}>{source}</Badge>;
}

const STATE_TONES: Record<State, Tone> = {
  queued: "plain",
  running: "info",
  done: "good",
  failed: "bad",
  cancelled: "warn",
  interrupted: "warn",
};

export function StateBadge({ state }: { state: State }) {
  return <Badge tone={STATE_TONES[state]}>{state}</Badge>;
}

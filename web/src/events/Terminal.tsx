import { memo, useEffect, useRef } from "react";
import type { Connection } from "../api/watch";
import type { LogLine } from "./job-progress";

const MARKS: Record<LogLine["mark"], { sign: string; color: string }> = {
  state: { sign: "·", color: "text-faint" },
  stage: { sign: ">", color: "text-ink font-medium" },
  fits: { sign: "✓", color: "text-[#7dffc0]" },
  fails: { sign: "✗", color: "text-bad-ink" },
  done: { sign: "✓", color: "text-accent font-medium" },
  error: { sign: "✗", color: "text-bad-ink font-medium" },
};

interface TerminalProps {
  lines: readonly LogLine[];
  startedAt: string | null;
  connection?: Connection;
  /** Whether the events were recorded, so that none of them is live. */
  isRecorded?: boolean;
  isRunning: boolean;
  className?: string;
}

/** The events of a job, as they happened. */
export function Terminal({ lines, startedAt, connection, isRecorded, isRunning, className = "" }: TerminalProps) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <section
      aria-label="Events"
      className={`flex min-h-0 flex-col overflow-hidden rounded-[0.875rem] border border-line bg-black ${className}`}
    >
      <div className="flex h-10 shrink-0 items-center justify-between border-b border-line px-4 text-xs text-soft">
        <span className="font-mono">memorymark</span>
        {connection && <ConnectionWord connection={connection} isRecorded={isRecorded} />}
      </div>
      <div
        ref={box}
        onScroll={({ currentTarget: it }) => {
          follows.current = it.scrollHeight - it.scrollTop - it.clientHeight < 40;
        }}
        // A scrolling region must take the focus, or the keyboard cannot scroll it.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Events of the job"
        className="grow overflow-auto p-4 font-mono text-xs leading-6 -outline-offset-2"
      >
        {lines.map((line, index) => (
          <Line key={line.id} line={line} startedAt={startedAt} hasCursor={isRunning && index === lines.length - 1} />
        ))}
      </div>
    </section>
  );
}

interface LineProps {
  line: LogLine;
  startedAt: string | null;
  hasCursor: boolean;
}

const Line = memo(function Line({ line, startedAt, hasCursor }: LineProps) {
  return (
    <div className="flex gap-3">
      <span className="w-14 shrink-0 text-right text-faint">{clock(line.at, startedAt)}</span>
      <span className={`${MARKS[line.mark].color} whitespace-pre-wrap`}>
        {MARKS[line.mark].sign} {line.text}
        {hasCursor && (
          <span aria-hidden="true" className="ml-1 animate-[blink_1.1s_steps(2)_infinite] text-accent">
            ▍
          </span>
        )}
      </span>
    </div>
  );
});

const CONNECTIONS: Record<Connection, [string, string]> = {
  connecting: ["bg-edge", "connecting…"],
  live: ["bg-accent", "live"],
  reconnecting: ["bg-warn", "reconnecting…"],
  polling: ["bg-sky", "polling"],
};

function ConnectionWord({ connection, isRecorded }: Pick<TerminalProps, "isRecorded"> & { connection: Connection }) {
  const [color, word] = isRecorded && connection === "live" ? ["bg-warn", "recorded"] : CONNECTIONS[connection];
  return (
    <span role="status" className="flex items-center gap-2">
      <span aria-hidden="true" className={`size-2 rounded-full ${color}`} />
      {word}
    </span>
  );
}

/** Seconds since it began to run. */
function clock(at: string, startedAt: string | null): string {
  if (!startedAt) return "";
  const seconds = (Date.parse(at) - Date.parse(startedAt)) / 1000;
  return seconds < 0 ? "" : `${seconds.toFixed(1)} s`;
}

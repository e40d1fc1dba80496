import { useState } from "react";
import { usePastEvents } from "../api/queries";
import type { Advice, Analysis, Job } from "../api/types";
import { NOTHING_YET, advance } from "../events/job-progress";
import { Terminal } from "../events/Terminal";
import { bytes, parameters, percent, seconds, when } from "../shared/format";
import { Card } from "../ui/Card";
import { isRecorded } from "./recorded";

export const SYNTHETIC = "Batches are synthetic, so data loading is not included: speed and savings are upper bounds.";

interface HowFoundProps {
  job: Job;
  result: Analysis | Advice;
  /** Whether it was measured or predicted, and on what. */
  source: string;
  /** What else to know. */
  notes?: readonly string[];
}

/** Measured or predicted, on what, with which versions, and what that leaves out. */
export function HowFound({ job, result, source, notes = [] }: HowFoundProps) {
  return (
    <Card title="How this was found">
      <div className="grid grid-cols-1 gap-x-10 gap-y-6 lg:grid-cols-2">
        <dl className="grid grid-cols-1 content-start gap-x-6 gap-y-2 text-sm sm:grid-cols-[6rem_minmax(0,1fr)]">
          {factsOf(job, result, source).map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-soft">{name}</dt>
              <dd className="mb-1 sm:mb-0">{value}</dd>
            </div>
          ))}
        </dl>
        <ul className="space-y-2 text-sm text-soft">
          {[SYNTHETIC, ...notesOn(result), ...notes].map((note) => (
            <li key={note} className="border-l-2 border-edge pl-3">
              {note}
            </li>
          ))}
        </ul>
      </div>
      <EventLog id={job.id} />
    </Card>
  );
}

function factsOf(job: Job, result: Analysis | Advice, source: string): [string, string][] {
  const { machine } = job;
  const versions = { memorymark: job.versions["memorymark"] ?? "", ...result.versions };
  return [
    ["Source", source],
    ["Memory", memoryWords(result)],
    ["Model", modelWords(result)],
    [
      "Versions",
      Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(", "),
    ],
    ["Machine", `${machine.system}, ${machine.processors} processors, ${machine.gpus.join(", ") || "no GPU"}`],
    [isRecorded(job) ? "Played" : "Asked", `${when(job.created_at)}, answered in ${seconds(result.seconds["total"] ?? 0)}`],
  ];
}

function memoryWords({ info, margin }: Analysis | Advice): string {
  const free = percent(100 * margin, 0);
  return info.capped
    ? `${bytes(info.capacity_bytes)} for the allocator, capped; ${free} of it kept free`
    : `${bytes(info.total_bytes)} in all, ${bytes(info.capacity_bytes)} of it for the allocator; ${free} of that kept free`;
}

function modelWords({ info, sample, small, request }: Analysis | Advice): string {
  return [
    `${parameters(info.parameters)} parameters`,
    `samples of ${sample}`,
    small && "a small stand-in",
    request.config && "built from the config that was given",
    request.task && `task ${request.task}`,
    request.revision && `revision ${request.revision}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function notesOn({ source, unknown_operations: unknown, info }: Analysis | Advice): string[] {
  return [
    ...(source === "predicted"
      ? ["Predictions come with intervals; they are wider for GPUs that were never measured."]
      : []),
    ...(info.gpu_profile ? [`Predicted times are corrected by a profile of the GPU: ${info.gpu_profile}.`] : []),
    ...(unknown.length > 0 ? [`Less certain, because never measured: ${unknown.join(", ")}.`] : []),
    ...(info.device_kind === "cpu" ? ["No GPU was used: the model was trained on the CPU."] : []),
    "Weights are random and nothing is downloaded: memory does not depend on their values.",
  ];
}

/** The events, loaded when someone wants to see them. */
function EventLog({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false);
  const { data } = usePastEvents(id, isOpen);
  const progress = advance(NOTHING_YET, data?.events ?? []);
  return (
    <details className="mt-6" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="inline-flex min-h-8 items-center rounded text-sm text-soft underline hover:text-ink">
        Event log
      </summary>
      <Terminal lines={progress.lines} startedAt={progress.startedAt} isRunning={false} className="mt-3 h-80" />
    </details>
  );
}

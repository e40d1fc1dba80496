import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import { isAdvice, type Advice, type Analysis, type Job, type Request } from "../api/types";
import { SYNTHETIC } from "../logic/analysis";
import { bytes, parameters, percent, seconds, when } from "../logic/format";
import { howAdvised } from "../logic/headline";
import { NOTHING_YET, advance } from "../logic/job-progress";
import { Terminal } from "../running/Terminal";
import { Card } from "../ui/Card";

/** Measured or predicted, on what, with which versions, and what that leaves out. */
export function HowFound({ job, result }: { job: Job; result: Analysis | Advice }) {
  const { info } = result;
  const facts: [string, string][] = [
    ["Source", sourceWords(result)],
    [
      "Memory",
      info.capped
        ? `${bytes(info.capacity_bytes)} for the allocator, capped; ${percent(100 * result.margin, 0)} of it kept free`
        : `${bytes(info.total_bytes)} in all, ${bytes(info.capacity_bytes)} of it for the allocator; ${percent(100 * result.margin, 0)} of that kept free`,
    ],
    [
      "Model",
      `${parameters(info.parameters)} parameters, samples of ${result.sample}${result.small ? ", a small stand-in" : ""}${modelWords(result.request)}`,
    ],
    [
      "Versions",
      Object.entries({ memorymark: job.versions["memorymark"] ?? "", ...result.versions })
        .map(([name, version]) => `${name} ${version}`)
        .join(", "),
    ],
    [
      "Machine",
      `${job.machine.system}, ${job.machine.processors} processors${job.machine.gpus.length > 0 ? `, ${job.machine.gpus.join(", ")}` : ", no GPU"}`,
    ],
    ["Asked", `${when(job.created_at)}, answered in ${seconds(result.seconds["total"] ?? 0)}`],
  ];
  return (
    <Card title="How this was found">
      <div className="grid grid-cols-1 gap-x-10 gap-y-6 lg:grid-cols-2">
        <dl className="grid grid-cols-1 content-start gap-x-6 gap-y-2 text-sm sm:grid-cols-[6rem_minmax(0,1fr)]">
          {facts.map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-soft">{name}</dt>
              <dd className="mb-1 sm:mb-0">{value}</dd>
            </div>
          ))}
        </dl>
        <ul className="space-y-2 text-sm text-soft">
          {notes(result).map((note) => (
            <li key={note} className="border-l-2 border-edge pl-3">
              {note}
            </li>
          ))}
        </ul>
      </div>
      <WhatHappened id={job.id} />
    </Card>
  );
}

/** What was said of the model besides its name. */
function modelWords({ config, task, revision }: Request): string {
  return [
    ...(config ? ["built from the config that was given"] : []),
    ...(task ? [`task ${task}`] : []),
    ...(revision ? [`revision ${revision}`] : []),
  ]
    .map((words) => `, ${words}`)
    .join("");
}

function sourceWords(result: Analysis | Advice): string {
  if (isAdvice(result)) return howAdvised(result);
  if (result.source === "measured") return `Measured on ${result.gpu_name}: every number comes from steps that ran`;
  return `Predicted for ${result.gpu_name}: nothing ran on one`;
}

function notes(result: Analysis | Advice): string[] {
  const { unknown_operations: unknown, info } = result;
  const thrashing = isAdvice(result) ? [] : result.thrashing_batch_sizes;
  return [
    SYNTHETIC,
    ...(result.source === "predicted"
      ? ["Predicted numbers come with intervals, which are wider for GPUs that were never measured."]
      : []),
    ...(unknown.length > 0 ? [`Less certain: ${unknown.join(", ")} were never measured.`] : []),
    ...(thrashing.length > 0
      ? [
          `Thrashing at batch ${thrashing.join(", ")}: it trains, but the allocator retries or the time per sample jumps.`,
        ]
      : []),
    ...(info.device_kind === "cpu" ? ["No GPU was used: the model was really trained on the CPU."] : []),
    "Memory does not depend on the values of the weights, so they are random and none are downloaded.",
  ];
}

/** The events, loaded when someone wants to see them. */
function WhatHappened({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({
    queryKey: ["events", id],
    queryFn: ({ signal }) => api.events(id, 0, { signal }),
    enabled: isOpen,
    staleTime: Infinity,
  });
  const progress = advance(NOTHING_YET, data?.events ?? []);
  return (
    <details className="mt-6" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="inline-flex min-h-8 items-center rounded text-sm text-soft underline hover:text-ink">
        What happened, event by event
      </summary>
      <Terminal lines={progress.lines} startedAt={progress.startedAt} isRunning={false} className="mt-3 h-80" />
    </details>
  );
}

import { useCancel, useGpus, useJobs } from "../api/queries";
import type { Job } from "../api/types";
import { adviceWords, fractionAdvised, fractionDone, type JobProgress } from "../events/job-progress";
import { Terminal } from "../events/Terminal";
import { useJobEvents } from "../events/use-job-events";
import { LENGTHS } from "../form/option";
import { JobTitle } from "../result/JobTitle";
import { isRecorded } from "../result/recorded";
import { plannedSource } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { seconds } from "../shared/format";
import { callProblem } from "../shared/problems";
import { capitalized } from "../shared/text";
import { useNow } from "../shared/use-now";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { GrowingCharts } from "./GrowingCharts";
import { ProgressBar } from "./ProgressBar";

interface RunningViewProps {
  job: Job;
  model: string;
}

/** A job that waits or runs: its place in the queue, its progress, its events and the charts that grow with them. */
export function RunningView({ job, model }: RunningViewProps) {
  const { progress, connection } = useJobEvents(job.id);
  const cancel = useCancel(job.id);
  const { placeOf } = useJobNames();
  // At several lengths, or with several recipes, a batch size means something else each time: there is no one chart.
  const hasCharts = job.kind === "analysis";
  const isQueued = (progress.state ?? job.state) === "queued";
  return (
    <div className="space-y-6">
      <JobTitle job={job} model={model} place={placeOf(job)} source={plannedSource(job)}>
        <Button look="danger" onClick={() => cancel.mutate()} disabled={cancel.isPending}>
          {cancel.isPending ? "Cancelling…" : "Cancel"}
        </Button>
      </JobTitle>
      {cancel.isError && <ErrorBox problem={callProblem(cancel.error)} onDismiss={cancel.reset} />}
      <div className="card min-h-56 p-5 sm:min-h-44 sm:p-8">
        {isQueued ? <InQueue position={job.position} /> : <UnderWay job={job} progress={progress} />}
      </div>
      <div className={hasCharts ? "grid grid-cols-1 gap-6 lg:grid-cols-2" : ""}>
        <Terminal
          lines={progress.lines}
          startedAt={progress.startedAt}
          connection={connection}
          isRecorded={isRecorded(job)}
          isRunning={!isQueued}
          className={hasCharts ? "h-72 lg:h-auto lg:max-h-[47rem]" : "h-[34rem]"}
        />
        {hasCharts && <GrowingCharts job={job} progress={progress} />}
      </div>
    </div>
  );
}

function InQueue({ position }: { position: number | null }) {
  const { data } = useJobs({ state: "running" });
  const running = data?.pages[0]?.jobs.length ?? 0;
  const text =
    position === null ? "Waiting in the queue" : position === 1 ? "Next in the queue" : `Number ${position} in the queue`;
  return (
    <>
      <Doing text={text} />
      <p className="mt-3 mb-5 text-soft sm:text-lg">
        {running > 0 ? "Another job is running. " : ""}This one starts automatically; you can close the page and come back.
      </p>
      <ProgressBar value={0} text={text} />
    </>
  );
}

/** What goes on now; a screen reader says it when it changes. */
function Doing({ text }: { text: string }) {
  return (
    <h1
      aria-live="polite"
      className="min-h-[2lh] text-2xl leading-tight font-semibold tracking-tight sm:min-h-[1lh] sm:text-4xl"
    >
      {text}
    </h1>
  );
}

function UnderWay({ job, progress }: { job: Job; progress: JobProgress }) {
  const now = useNow(true);
  const began = progress.startedAt ?? job.started_at;
  const elapsed = began ? Math.max(now - Date.parse(began), 0) / 1000 : 0;
  const fraction = useFraction(job, progress, now);
  const message = progress.message ? capitalized(progress.message) : "Starting";
  return (
    <>
      <Doing text={message} />
      <p className="mt-3 mb-5 flex justify-between gap-4 text-soft tabular-nums sm:text-lg">
        <span>{doneWords(job, progress)}</span>
        <span>{seconds(elapsed)}</span>
      </p>
      <ProgressBar value={fraction} text={message} />
    </>
  );
}

function doneWords({ kind }: Job, progress: JobProgress): string {
  if (kind === "advice") return adviceWords(progress);
  return kind === "comparison" ? "One GPU after the other" : `${progress.trials.length} batch sizes tried`;
}

/** How far it is, from 0 to 1. */
function useFraction(job: Job, progress: JobProgress, now: number): number {
  const { data: gpus } = useGpus();
  if (job.kind === "advice") return fractionAdvised(progress, now);
  const lengths = job.options?.[LENGTHS] as number[] | undefined;
  return fractionDone(progress, now, job.kind === "comparison" ? (gpus?.length ?? 15) : null, lengths?.length ?? 1);
}

import { useMemo } from "react";
import type { Job } from "../api/types";
import { MemoryChart, ThroughputChart } from "../charts/lazy";
import { useCancel, useGpus, useJobs } from "../hooks/queries";
import { useJobEvents } from "../hooks/use-job-events";
import { useJobNames } from "../hooks/use-job-names";
import { useNow } from "../hooks/use-now";
import { useThrottled } from "../hooks/use-throttled";
import { memoryColumns, throughputPoints, type Room } from "../logic/chart-data";
import { GIB, seconds } from "../logic/format";
import { adviceWords, fractionAdvised, fractionDone, type JobProgress } from "../logic/job-progress";
import { callProblem, sentence } from "../logic/problems";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { ErrorBox } from "../ui/ErrorBox";
import { JobTitle } from "./JobTitle";
import { ProgressBar } from "./ProgressBar";
import { Terminal } from "./Terminal";

const CHARTS_EVERY_MS = 600;

interface RunningViewProps {
  job: Job;
  model: string;
}

/** A job that waits or runs: its place in line, its progress, its events and the charts that grow with them. */
export function RunningView({ job, model }: RunningViewProps) {
  const { progress, connection } = useJobEvents(job.id);
  const cancel = useCancel(job.id);
  const { placeOf } = useJobNames();
  const { request, all_gpus: isForAllGpus } = job.question;
  // At several lengths, or with several recipes, a batch size means something else each time: there is no one chart.
  const hasCharts = !isForAllGpus && !job.question.advise && lengthsOf(job) === 1;
  const isQueued = (progress.state ?? job.state) === "queued";
  return (
    <div className="space-y-6">
      <JobTitle
        model={model}
        place={placeOf(job)}
        recipe={request.recipe}
        sample={job.sample_words ?? undefined}
        source={isForAllGpus || request.target.gpu ? "predicted" : "measured"}
      >
        <Button look="danger" onClick={() => cancel.mutate()} disabled={cancel.isPending}>
          {cancel.isPending ? "Cancelling…" : "Cancel"}
        </Button>
      </JobTitle>
      {cancel.isError && <ErrorBox problem={callProblem(cancel.error)} onDismiss={cancel.reset} />}
      <div className="card min-h-56 p-5 sm:min-h-44 sm:p-8">
        {isQueued ? <InLine position={job.position} /> : <UnderWay job={job} progress={progress} />}
      </div>
      {!hasCharts ? (
        <Terminal
          lines={progress.lines}
          startedAt={progress.startedAt}
          connection={connection}
          isRunning={!isQueued}
          className="h-[34rem]"
        />
      ) : (
        <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
          <Terminal
            lines={progress.lines}
            startedAt={progress.startedAt}
            connection={connection}
            isRunning={!isQueued}
            className="h-72 lg:h-auto lg:max-h-[47rem]"
          />
          <GrowingCharts job={job} progress={progress} />
        </div>
      )}
    </div>
  );
}

/** How many lengths of a sample are asked for. */
function lengthsOf(job: Job): number {
  return Math.max(job.question.seq_lens?.length ?? 0, 1);
}

function InLine({ position }: { position: number | null }) {
  const { data } = useJobs({ state: "running" });
  const running = data?.pages[0]?.jobs.length ?? 0;
  const text = position === null ? "Waiting in line" : position === 1 ? "Next in line" : `Number ${position} in line`;
  return (
    <>
      <Doing text={text} />
      <p className="mt-3 mb-5 text-soft sm:text-lg">
        {running > 0 ? "Another job runs now. " : ""}This starts by itself; you can close the page and come back.
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
  const { data: gpus } = useGpus();
  const began = progress.startedAt ?? job.started_at;
  const elapsed = began ? Math.max(now - Date.parse(began), 0) / 1000 : 0;
  const { advise, all_gpus: isForAllGpus } = job.question;
  const value = advise
    ? fractionAdvised(progress, now)
    : fractionDone(progress, now, isForAllGpus ? (gpus?.length ?? 15) : null, lengthsOf(job));
  const done = isForAllGpus ? "One GPU after the other" : `${progress.trials.length} batch sizes tried`;
  const message = progress.message ? sentence(progress.message) : "Starting";
  return (
    <>
      <Doing text={message} />
      <p className="mt-3 mb-5 flex justify-between gap-4 text-soft tabular-nums sm:text-lg">
        <span>{advise ? adviceWords(progress) : done}</span>
        <span>{seconds(elapsed)}</span>
      </p>
      <ProgressBar value={value} text={message} />
    </>
  );
}

/** The charts of the answer, while it is not there yet. */
function GrowingCharts({ job, progress }: { job: Job; progress: JobProgress }) {
  const { data: gpus } = useGpus();
  const trials = useThrottled(progress.trials, CHARTS_EVERY_MS);
  // One chart after the other, so that neither holds up the page for long.
  const later = useThrottled(trials, CHARTS_EVERY_MS / 2);
  const { memory_cap_bytes: cap, gpu } = job.question.request.target;
  // The catalog and the search say the same of a GPU; of the one here only the search knows.
  const target = progress.targetBytes ?? cap ?? gpus?.find((entry) => entry.id === gpu)?.memory_bytes ?? null;
  const limit = target === null ? null : target / GIB;
  const columns = useMemo(() => {
    const room: Room = { limit, capped: cap !== null };
    return memoryColumns(trials, room);
  }, [trials, limit, cap]);
  const points = useMemo(() => throughputPoints(later), [later]);
  return (
    <div className="space-y-6">
      <Card title="Memory by batch size" note={cap === null ? "GiB that the GPU holds at the peak of a step." : "GiB reserved at the peak of a step."}>
        <MemoryChart columns={columns} limit={limit} limitName="All there is" isGrowing />
      </Card>
      <Card title="Throughput by batch size" note="Training samples per second.">
        <ThroughputChart
          points={points}
          today={job.question.current_batch_size}
          recommended={null}
          isGrowing
          hasIntervals={gpu !== null || points.some((point) => point.between)}
        />
      </Card>
    </div>
  );
}

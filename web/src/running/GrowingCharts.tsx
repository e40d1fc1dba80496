import { useMemo } from "react";
import { useGpus } from "../api/queries";
import type { Job } from "../api/types";
import { memoryColumns, throughputPoints } from "../charts/chart-data";
import { MemoryChart, ThroughputChart } from "../charts/lazy";
import type { JobProgress } from "../events/job-progress";
import { plannedSource } from "../result/summary";
import { GIB } from "../shared/format";
import { useThrottled } from "../shared/use-throttled";
import { Card } from "../ui/Card";

const CHARTS_EVERY_MS = 600;

/** The charts of the answer, while it is not there yet. */
export function GrowingCharts({ job, progress }: { job: Job; progress: JobProgress }) {
  const { data: gpus } = useGpus();
  const trials = useThrottled(progress.trials, CHARTS_EVERY_MS);
  // One chart after the other, so that neither holds up the page for long.
  const later = useThrottled(trials, CHARTS_EVERY_MS / 2);
  const cap = (job.options?.["memory_gib"] as number | undefined) ?? null;
  const ofGpu = gpus?.find((entry) => entry.id === job.target)?.memory_bytes;
  const told = progress.targetBytes ?? ofGpu;
  const limit = progress.targetBytes === null && cap !== null ? cap : told === undefined ? null : told / GIB;
  const columns = useMemo(() => memoryColumns(trials, { limit, capped: cap !== null }), [trials, limit, cap]);
  const points = useMemo(() => throughputPoints(later), [later]);
  return (
    <div className="space-y-6">
      <Card
        title="Memory by batch size"
        note={cap === null ? "GiB in use on the GPU at the peak of a step." : "GiB reserved at the peak of a step."}
      >
        <MemoryChart columns={columns} limit={limit} isGrowing />
      </Card>
      <Card title="Throughput by batch size" note="Training samples per second.">
        <ThroughputChart
          points={points}
          today={job.current_batch_size}
          recommended={null}
          isGrowing
          hasIntervals={plannedSource(job) === "predicted" || points.some((point) => point.between)}
        />
      </Card>
    </div>
  );
}

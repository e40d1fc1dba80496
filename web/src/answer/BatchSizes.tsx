import type { Analysis } from "../api/types";
import { count, short } from "../shared/format";
import { rateWords } from "../shared/rate";
import { Card } from "../ui/Card";
import { currentTrial, otherLoopWords, recommendedTrial, whySmaller } from "./analysis";

/** Today's batch, the largest and the one worth using. */
export function BatchSizes({ analysis }: { analysis: Analysis }) {
  const now = currentTrial(analysis);
  const best = recommendedTrial(analysis);
  return (
    <Card title="Batch sizes">
      <dl className="divide-y divide-line">
        <BatchSize name="Today" size={analysis.current_batch_size} note={rateWords(now)} />
        <BatchSize name="Maximum" size={analysis.max_batch_size} note={maximumWords(analysis)} />
        {analysis.other_loop && (
          <BatchSize
            name={`Maximum, outputs ${analysis.other_loop.keeps_outputs ? "kept" : "dropped"}`}
            size={analysis.other_loop.max_batch_size || null}
            note={otherLoopWords(analysis.other_loop)}
          />
        )}
        <BatchSize
          name="Recommended"
          size={analysis.recommended_batch_size}
          note={
            best
              ? [rateWords(best), whySmaller(analysis)].filter(Boolean).join(". ")
              : analysis.info.memory_only
                ? "Only memory is predicted for this GPU"
                : `No batch leaves ${short(100 * analysis.margin)} % of the memory free`
          }
          isBest
        />
      </dl>
    </Card>
  );
}

interface BatchSizeProps {
  name: string;
  size: number | null;
  note: string;
  isBest?: boolean;
}

function BatchSize({ name, size, note, isBest = false }: BatchSizeProps) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 py-3 first:pt-0 last:pb-0">
      <dt className={`font-medium ${isBest ? "text-accent" : ""}`}>{name}</dt>
      <dd className="col-start-1 text-sm text-soft">{note}</dd>
      <dd
        className={`col-start-2 row-span-2 row-start-1 text-4xl font-semibold tracking-tight tabular-nums ${isBest ? "text-accent" : ""}`}
      >
        {size === null ? "none" : count(size)}
      </dd>
    </div>
  );
}

function maximumWords(analysis: Analysis): string {
  const next = count(analysis.max_batch_size + 1);
  const why = {
    memory: `${next} runs out of memory`,
    limit: `${next} exceeds a launch limit`,
    caller: "The largest that was allowed",
  }[analysis.limited_by];
  const interval = analysis.max_batch_interval;
  return `${why ?? ""}${interval ? `; expect ${count(interval[0])} to ${count(interval[1])}` : ""}`;
}

import type { Analysis } from "../api/types";
import { currentTrial, efficiencyPercent } from "../logic/analysis";
import { GIB, bytes, count, percent } from "../logic/format";
import { Card } from "../ui/Card";

/** Red: what today's batch uses, and wastes. Green: what the largest batch uses. */
export function MemoryBars({ analysis }: { analysis: Analysis }) {
  const total = analysis.gpu_total_gb * GIB;
  const isTried = currentTrial(analysis) !== null;
  const waste = analysis.current_waste_percent;
  const efficiency = efficiencyPercent(analysis);
  const why = analysis.current_batch_size > analysis.max_batch_size ? "Does not fit" : "Was not tried";
  return (
    <Card title="Memory" note={`Of the ${bytes(total, 1)} that training can have.`}>
      <div className="space-y-6">
        {isTried && waste !== null ? (
          <MemoryBar
            name="Today"
            batch={analysis.current_batch_size}
            verdict={`${percent(waste)} wasted`}
            usedPercent={100 - waste}
            words={`${bytes((total * (100 - waste)) / 100)} used, ${bytes((analysis.current_waste_gb ?? 0) * GIB)} wasted`}
            isGood={false}
          />
        ) : (
          <MemoryBar
            name="Today"
            batch={analysis.current_batch_size}
            verdict={why}
            usedPercent={0}
            words={`${why} in this memory`}
            isGood={false}
          />
        )}
        <MemoryBar
          name="Maximum"
          batch={analysis.max_batch_size}
          verdict={`${percent(efficiency)} efficient`}
          usedPercent={efficiency}
          words={`${bytes((total * efficiency) / 100)} used, ${bytes(analysis.waste_gb * GIB)} left`}
          isGood
        />
      </div>
    </Card>
  );
}

interface MemoryBarProps {
  name: string;
  batch: number;
  verdict: string;
  usedPercent: number;
  words: string;
  isGood: boolean;
}

function MemoryBar({ name, batch, verdict, usedPercent, words, isGood }: MemoryBarProps) {
  return (
    <div>
      <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-4">
        <p className="font-medium">
          {name} <span className="text-soft">batch {count(batch)}</span>
        </p>
        <p className={`text-lg font-semibold tabular-nums ${isGood ? "text-accent" : "text-bad-ink"}`}>{verdict}</p>
      </div>
      <div
        aria-hidden="true"
        className={`h-8 overflow-hidden rounded-md ${isGood ? "bg-raised" : "bg-[repeating-linear-gradient(135deg,#3a1717_0_6px,#2a1414_6px_12px)]"}`}
      >
        <div
          className={`arrives h-full rounded-md ${isGood ? "bg-accent" : "bg-bad"}`}
          style={{ width: `${Math.max(usedPercent, 0)}%` }}
        />
      </div>
      <p className="mt-1.5 text-sm text-soft tabular-nums">{words}</p>
    </div>
  );
}

import type { Analysis } from "../api/types";
import { count, dollars, peopleWords, perSecond, short, speedup } from "../shared/format";
import { currentTrial, isFaster, recommendedTrial, speedupRange } from "./analysis";
import { savings, whyNoSavings, type CostInput } from "./savings";

interface StatCardsProps {
  analysis: Analysis;
  cost: CostInput;
}

/** Speed and money, with the calculator's numbers. */
export function StatCards({ analysis, cost }: StatCardsProps) {
  const now = currentTrial(analysis)?.samples_per_second;
  const then = recommendedTrial(analysis)?.samples_per_second;
  const gain = analysis.speedup;
  const range = speedupRange(analysis);
  const isWorth = isFaster(analysis);
  const nothing = whyNoSavings(analysis, cost);
  const saved = nothing === null && gain !== null ? savings(cost, gain) : null;
  return (
    <div className="grid grid-cols-1 gap-4 sm:grid-cols-3 sm:gap-6">
      <Stat
        name="Speedup"
        value={gain === null ? "–" : speedup(gain)}
        note={
          now && then
            ? [`${perSecond(then)} instead of ${perSecond(now)} samples per second`, ...(range ? [`expect ${speedup(range[0])} to ${speedup(range[1])}`] : [])].join("; ")
            : "Today's batch was not timed"
        }
        isGood={isWorth}
      />
      <Stat
        name="Cost saved per run"
        value={saved ? dollars(saved.perRun) : "–"}
        note={nothing ?? `${short(cost.hoursPerRun, 1)} h a run today, at $${short(cost.pricePerHour)} an hour`}
        isGood={isWorth}
      />
      <Stat
        name="Annual savings"
        value={saved ? dollars(saved.perYear) : "–"}
        note={nothing ?? `${count(cost.runsPerYear)} runs a year, ${peopleWords(cost.people)}`}
        isGood={isWorth}
      />
    </div>
  );
}

interface StatProps {
  name: string;
  value: string;
  note: string;
  isGood: boolean;
}

function Stat({ name, value, note, isGood }: StatProps) {
  return (
    <div className="card min-w-0 p-5 sm:p-6">
      <p className="text-sm text-soft">{name}</p>
      <p className={`mt-1 text-4xl font-semibold tracking-tight tabular-nums ${isGood ? "text-accent" : ""}`}>
        {value}
      </p>
      <p className="mt-1 text-sm text-soft">{note}</p>
    </div>
  );
}

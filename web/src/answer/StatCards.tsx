import type { Analysis } from "../api/types";
import { count, dollars, hours, peopleWords, perSecond, short, speedup } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { currentTrial, isFaster, recommendedTrial, speedupRange } from "./analysis";
import { savings, whyNoSavings, type CostInput } from "./savings";

interface StatCardsProps {
  analysis: Analysis;
  cost: CostInput;
}

/** Speed and money, with the calculator's numbers. */
export function StatCards({ analysis, cost }: StatCardsProps) {
  const trials = [recommendedTrial(analysis), currentTrial(analysis)] as const;
  const [then, now] = [rateOf(trials[0]), rateOf(trials[1])];
  const gain = analysis.speedup;
  const range = speedupRange(analysis);
  const isWorth = isFaster(analysis);
  const nothing = whyNoSavings(analysis, cost);
  const saved = nothing === null && gain !== null ? savings(cost, gain) : null;
  return (
    <div className={`grid grid-cols-1 gap-4 sm:gap-6 ${analysis.whole_run ? "sm:grid-cols-2 lg:grid-cols-4" : "sm:grid-cols-3"}`}>
      <Stat
        name="Speedup"
        value={gain === null ? "–" : speedup(gain)}
        note={
          now && then
            ? [`${perSecond(then)} instead of ${perSecond(now)} ${rateUnit(trials)} per second`, ...(range ? [`expect ${speedup(range[0])} to ${speedup(range[1])}`] : [])].join("; ")
            : "Today's batch was not timed"
        }
        isGood={isWorth}
      />
      {analysis.whole_run && (
        <Stat
          name="Whole run"
          value={hours(analysis.whole_run.hours)}
          note={runWords(analysis.whole_run, analysis.whole_run_today)}
          isGood={isWorth}
        />
      )}
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

type WholeRun = NonNullable<Analysis["whole_run"]>;

/** What the run costs, the hours to expect, and what it takes today. */
function runWords(run: WholeRun, today: WholeRun | null | undefined): string {
  const range = run.hours_interval;
  return [
    ...(run.usd === null ? [] : [dollars(run.usd)]),
    ...(range ? [`expect ${hours(range[0])} to ${hours(range[1])}`] : []),
    ...(today ? [`${hours(today.hours)} at today's batch`] : []),
  ].join("; ");
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

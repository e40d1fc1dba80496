import { useState } from "react";
import type { Analysis } from "../api/types";
import { SYNTHETIC } from "../result/HowFound";
import { count, dollars, peopleWords, percent, short, speedup } from "../shared/format";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { SliderField } from "../ui/SliderField";
import { priceWords } from "./analysis";
import { LAB_SPENDS_PER_YEAR, NO_PRICE, labThatSpends47k, savings, whyNoSavings, type CostInput } from "./savings";

interface CostCalculatorProps {
  analysis: Analysis;
  cost: CostInput;
  onChange: (cost: CostInput) => void;
}

/** What the speedup is worth with your own numbers. */
export function CostCalculator({ analysis, cost, onChange }: CostCalculatorProps) {
  const [first] = useState(cost);
  const change = (part: Partial<CostInput>) => onChange({ ...cost, ...part });
  const isLab = cost.pricePerHour !== NO_PRICE && isSame(cost, labThatSpends47k(cost.pricePerHour));
  return (
    <Card
      title="Cost calculator"
      note={analysis.price ? `Starts at ${priceWords(analysis)}.` : "No price is known for this GPU: enter yours."}
    >
      <div className="grid grid-cols-1 gap-8 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="grid grid-cols-1 gap-x-8 gap-y-5 sm:grid-cols-2">
          <SliderField
            label="Price per hour"
            unit="$"
            range={[0.1, 100]}
            value={cost.pricePerHour}
            onChange={(pricePerHour) => change({ pricePerHour })}
          />
          <SliderField
            label="Hours per run today"
            unit="h"
            range={[0.1, 1000]}
            value={cost.hoursPerRun}
            onChange={(hoursPerRun) => change({ hoursPerRun })}
          />
          <SliderField
            label="Runs per year, each"
            unit="runs"
            range={[1, 10_000]}
            isWhole
            value={cost.runsPerYear}
            onChange={(runsPerYear) => change({ runsPerYear })}
          />
          <SliderField
            label="People who train"
            unit="people"
            range={[1, 500]}
            isWhole
            value={cost.people}
            onChange={(people) => change({ people })}
          />
          <div className="flex flex-wrap gap-2 sm:col-span-2">
            <Button
              aria-pressed={isSame(cost, first)}
              onClick={() => onChange(first)}
              className="aria-pressed:border-accent"
            >
              As analyzed
            </Button>
            <Button
              aria-pressed={isLab}
              disabled={cost.pricePerHour === NO_PRICE}
              onClick={() => onChange(labThatSpends47k(cost.pricePerHour))}
              className="aria-pressed:border-accent"
            >
              A lab that spends $47k a year
            </Button>
          </div>
          <p className="min-h-[3lh] text-xs text-faint sm:col-span-2 sm:min-h-[2lh]">
            {isLab &&
              `An assumption, not a measurement: ${peopleWords(cost.people)} with ${count(cost.runsPerYear)} runs of ${short(cost.hoursPerRun, 1)} h each spend ${dollars(LAB_SPENDS_PER_YEAR)} a year at $${short(cost.pricePerHour)} an hour.`}
          </p>
        </div>
        <Sums analysis={analysis} cost={cost} />
      </div>
    </Card>
  );
}

function Sums({ analysis, cost }: { analysis: Analysis; cost: CostInput }) {
  const nothing = whyNoSavings(analysis, cost);
  const gain = nothing === null ? analysis.speedup : null;
  const sums = savings(cost, gain ?? 1);
  return (
    <div aria-live="polite" className="flex flex-col justify-between rounded-xl border border-line bg-field p-5">
      <div>
        <p className="text-sm text-soft">You spend {dollars(sums.spentPerYear)} a year now</p>
        <p className={`mt-3 text-5xl font-semibold tracking-tight tabular-nums ${gain ? "text-accent" : ""}`}>
          {gain ? dollars(sums.perYear) : "–"}
        </p>
        <p className="mt-1 text-soft">
          {gain
            ? `saved per year, ${percent(100 * (1 - 1 / gain), 0)} of it; ${dollars(sums.perRun)} per run`
            : nothing}
        </p>
      </div>
      <p className="mt-5 text-xs text-faint">
        {gain ? `Price x hours x (1 - 1 / ${speedup(gain)}), times runs and people. ` : ""}
        {SYNTHETIC}
      </p>
    </div>
  );
}

function isSame(one: CostInput, other: CostInput): boolean {
  const near = (a: number, b: number) => Math.abs(a - b) <= 1e-9 * Math.abs(b);
  return (
    near(one.pricePerHour, other.pricePerHour) &&
    near(one.hoursPerRun, other.hoursPerRun) &&
    near(one.runsPerYear, other.runsPerYear) &&
    near(one.people, other.people)
  );
}

import { useId, type ReactNode } from "react";
import type { Advice, AdviceOption, Job } from "../api/types";
import { heldBytes } from "../result/memory";
import { bytes, dollars, gain, perSecond } from "../shared/format";
import { rateOf, rateUnit, type HasRate } from "../shared/rate";
import { capitalized } from "../shared/text";
import { Badge, SourceBadge } from "../ui/Badge";
import { Card } from "../ui/Card";
import { NamedNumber } from "../ui/NamedNumber";
import { batchWords, changeWords, mostGain, predictedBeside, todayTrial } from "./advice";

/** All that the GPU holds at the peak, as in an analysis. */
const MEMORY = "GPU memory";

interface OptionListProps {
  job: Job;
  advice: Advice;
  selected: number | null;
  onSelect: (index: number) => void;
}

/** The ways to train, the best first, and today's last; one of them is shown in detail. */
export function OptionList({ job, advice, selected, onSelect }: OptionListProps) {
  const name = useId();
  const title = !advice.fits_today ? "Ways to make it fit" : advice.worth_changing ? "What to change" : "What was tried";
  const order = advice.fits_today ? "Best first" : "Least change first";
  return (
    <Card title={title} note={`${order}. Choose one to see its costs and code.`}>
      <ol className="-mx-5 -mb-5 divide-y divide-line border-t border-line sm:-mx-6 sm:-mb-6">
        {advice.options.map((option, index) => (
          <li key={option.changes.join()}>
            <label className="flex cursor-pointer gap-4 px-5 py-4 hover:bg-raised/50 has-checked:bg-raised has-focus-visible:outline-2 has-focus-visible:-outline-offset-2 has-focus-visible:outline-accent sm:px-6">
              <input
                type="radio"
                name={name}
                checked={index === selected}
                onChange={() => onSelect(index)}
                className="mt-1 size-4 shrink-0 lg:mt-0 lg:self-center accent-accent outline-none"
              />
              <OptionRow advice={advice} option={option} isFirst={index === 0} />
            </label>
          </li>
        ))}
        <li className="flex gap-4 px-5 py-4 text-soft sm:px-6">
          <span aria-hidden="true" className="w-4 shrink-0" />
          <TodayRow job={job} advice={advice} />
        </li>
      </ol>
    </Card>
  );
}

function OptionRow({ advice, option, isFirst }: { advice: Advice; option: AdviceOption; isFirst: boolean }) {
  const predicted = predictedBeside(option);
  const isMixed = advice.options.some((one) => one.source !== option.source);
  const isBest = isFirst && advice.worth_changing;
  return (
    <Row
      gain={advice.fits_today && <Gain value={option.gain} most={mostGain(advice)} isBest={isBest} />}
      words={
        <>
          <span className={`font-medium ${isBest ? "text-accent" : ""}`}>{capitalized(changeWords(option))}</span>
          {isBest && !advice.fits_today && <Badge tone="good">least change</Badge>}
          {(isMixed || option.measured) && <SourceBadge source={option.source} />}
          {predicted !== null && <span className="text-xs text-soft">{gain(predicted)} predicted</span>}
        </>
      }
      batch={batchWords(option.batch_size, option)}
      rate={option}
      memoryBytes={heldBytes(advice.info, option.measured ?? option.predicted!)}
      cost={option.usd_per_million_samples}
      saved={option.cost_savings_annual}
    />
  );
}

function TodayRow({ job, advice }: { job: Job; advice: Advice }) {
  const today = todayTrial(advice);
  return (
    <Row
      gain={advice.fits_today && <Gain value={1} most={mostGain(advice)} isBest={false} />}
      words={
        <>
          <span>Today: {job.recipe_words}</span>
          {!today && <Badge tone="bad">does not fit</Badge>}
        </>
      }
      batch={batchWords(advice.current_batch_size, advice.recipe)}
      rate={today}
      memoryBytes={today && heldBytes(advice.info, today)}
      cost={advice.today.usd_per_million_samples}
      saved={null}
    />
  );
}

interface RowProps {
  /** Empty if there is no training of today to compare with. */
  gain: ReactNode;
  words: ReactNode;
  batch: string;
  rate: HasRate | null;
  memoryBytes: number | null;
  cost: number | null;
  saved: number | null;
}

/** Columns where there is room, lines where there is not. */
function Row({ gain: shown, words, batch, rate, memoryBytes, cost, saved }: RowProps) {
  const columns = shown
    ? "lg:grid-cols-[8rem_minmax(0,1fr)_repeat(5,6rem)]"
    : "lg:grid-cols-[minmax(0,1fr)_repeat(4,6rem)]";
  const number = (value: number | null, text: (value: number) => string) => (value === null ? "–" : text(value));
  return (
    <span className={`grid min-w-0 grow grid-cols-3 items-center gap-x-4 gap-y-3 ${columns}`}>
      {shown && <span className="col-span-3 lg:col-span-1">{shown}</span>}
      <span className="col-span-3 flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1 lg:col-span-1">{words}</span>
      <NamedNumber name="batch" value={batch} />
      <NamedNumber name={`${rateUnit([rate])}/s`} value={number(rateOf(rate), perSecond)} />
      <NamedNumber name={MEMORY} value={number(memoryBytes, bytes)} />
      <NamedNumber name="$/million" value={number(cost, dollars)} />
      {shown && <NamedNumber name="saved/year" value={number(saved, dollars)} />}
    </span>
  );
}

function Gain({ value, most, isBest }: { value: number | null; most: number; isBest: boolean }) {
  if (value === null) return <span className="text-faint">unknown</span>;
  return (
    <span className="flex items-center gap-3 lg:block">
      <span className={`block w-14 shrink-0 text-xl font-semibold tabular-nums lg:w-auto ${isBest ? "text-accent" : ""}`}>
        {gain(value)}
      </span>
      <span aria-hidden="true" className="block h-1.5 grow rounded-full bg-raised lg:mt-1">
        <span
          className={`block h-full rounded-full ${isBest ? "bg-accent" : "bg-faint"}`}
          style={{ width: `${(100 * value) / most}%` }}
        />
      </span>
    </span>
  );
}

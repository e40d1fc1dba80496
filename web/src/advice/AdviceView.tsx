import { useState } from "react";
import type { Advice, Job } from "../api/types";
import { AnalyzeAnother } from "../result/AnalyzeAnother";
import { ChangeQuestion } from "../result/ChangeQuestion";
import { snippets } from "../result/code-snippets";
import { CodeCard } from "../result/CodeCard";
import { ExportButtons } from "../result/ExportButtons";
import { HeadlineCard } from "../result/HeadlineCard";
import { HowFound } from "../result/HowFound";
import { JobTitle } from "../result/JobTitle";
import { heldBytes } from "../result/memory";
import { RunAgain } from "../result/RunAgain";
import { bytes, perSecond } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { capitalized } from "../shared/text";
import { Card } from "../ui/Card";
import { CheckIcon } from "../ui/icons";
import { NamedNumber } from "../ui/NamedNumber";
import { batchWords, todayTrial } from "./advice";
import { optionsCsv } from "./csv";
import { FamilyTable } from "./FamilyTable";
import { adviceDetail, adviceHeadline, howAdvised } from "./headline";
import { OptionCosts } from "./OptionCosts";
import { OptionList } from "./OptionList";

interface AdviceViewProps {
  job: Job;
  advice: Advice;
  model: string;
}

/** What to change. */
export function AdviceView({ job, advice, model }: AdviceViewProps) {
  const [selected, setSelected] = useState<number | null>(advice.worth_changing ? 0 : null);
  const option = selected === null ? undefined : advice.options[selected];
  return (
    <div className="space-y-6">
      <JobTitle
        job={job}
        model={model}
        place={advice.gpu_name}
        sample={advice.sample}
        source={advice.source}
        isSmall={advice.small}
      >
        <ChangeQuestion job={job} />
        <AnalyzeAnother />
      </JobTitle>
      {advice.worth_changing ? (
        <HeadlineCard headline={adviceHeadline(advice)} detail={adviceDetail(advice)} />
      ) : (
        <NothingToChange advice={advice} />
      )}
      {advice.incomplete && (
        <Reasons
          title="Incomplete: run it again"
          reasons={(advice.faults ?? []).map(({ title, reason }) => [title, `Could not be checked: ${reason}`])}
        />
      )}
      <OptionList job={job} advice={advice} selected={selected} onSelect={setSelected} />
      {option && (
        <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
          <OptionCosts advice={advice} option={option} />
          <CodeCard title="Code to paste" snippets={snippets(option.code)} batchSize={option.batch_size} />
        </div>
      )}
      <FamilyTable advice={advice} />
      {advice.refused.length > 0 && (
        <Reasons
          title="Also considered"
          reasons={advice.refused.map(({ title, why }) => [title, capitalized(why)])}
        />
      )}
      <HowFound job={job} result={advice} source={howAdvised(advice)} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={advice} csv={() => optionsCsv(advice)} />
        <RunAgain job={job} />
      </div>
    </div>
  );
}

/** Today's training is as good as it gets. */
function NothingToChange({ advice }: { advice: Advice }) {
  const today = todayTrial(advice);
  return (
    <div className="card flex min-h-44 flex-col gap-5 p-5 sm:flex-row sm:items-center sm:gap-8 sm:p-8">
      <span
        aria-hidden="true"
        className="grid size-14 shrink-0 place-items-center rounded-full border border-accent/40 bg-accent/10 text-accent sm:size-20"
      >
        <CheckIcon className="size-7 sm:size-10" />
      </span>
      <div className="min-w-0 grow">
        <h1 className="text-2xl leading-tight font-semibold tracking-tight sm:text-4xl">{adviceHeadline(advice).lead}</h1>
        <p className="mt-3 max-w-3xl text-pretty text-soft sm:text-lg">{adviceDetail(advice)}</p>
        {today && (
          <p className="mt-5 flex flex-wrap gap-x-10 gap-y-3">
            <NamedNumber name="batch today" value={batchWords(advice.current_batch_size, advice.recipe)} />
            <NamedNumber name={`${rateUnit([today])} per second`} value={perSecond(rateOf(today) ?? 0)} />
            <NamedNumber name="GPU memory" value={bytes(heldBytes(advice.info, today))} />
          </p>
        )}
      </div>
    </div>
  );
}

/** The changes that were rejected, and why. */
function Reasons({ title, reasons }: { title: string; reasons: [string, string][] }) {
  return (
    <Card title={title}>
      <dl className="divide-y divide-line text-sm">
        {reasons.map(([change, reason]) => (
          <div
            key={change + reason}
            className="grid grid-cols-1 gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0 sm:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]"
          >
            <dt className="font-medium">{capitalized(change)}</dt>
            <dd className="text-soft">{reason}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

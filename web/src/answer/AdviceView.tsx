import { useState } from "react";
import type { Advice, Job } from "../api/types";
import { batchWords, todayTrial } from "../logic/advice";
import { heldBytes } from "../logic/analysis";
import { snippets } from "../logic/code-snippets";
import { bytes, perSecond } from "../logic/format";
import { adviceDetail, adviceHeadline } from "../logic/headline";
import { sentence } from "../logic/problems";
import { AnalyzeAnother } from "../running/AnalyzeAnother";
import { ChangeQuestion } from "../running/ChangeQuestion";
import { HeadlineCard } from "../running/HeadlineCard";
import { JobTitle } from "../running/JobTitle";
import { Card } from "../ui/Card";
import { NamedNumber } from "../ui/NamedNumber";
import { CheckIcon } from "../ui/icons";
import { CodeCard } from "./CodeCard";
import { ExportButtons } from "./ExportButtons";
import { HowFound } from "./HowFound";
import { OptionCosts } from "./OptionCosts";
import { OptionList } from "./OptionList";
import { RunAgain } from "./RunAgain";

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
        model={model}
        place={advice.gpu_name}
        recipe={advice.recipe}
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
      {advice.incomplete && <NotLookedAt advice={advice} />}
      <OptionList advice={advice} selected={selected} onSelect={setSelected} />
      {option && (
        <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
          <OptionCosts advice={advice} option={option} />
          <CodeCard
            title="Code to paste"
            snippets={snippets(option.code)}
            batchSize={option.batch_size}
          />
        </div>
      )}
      {advice.refused.length > 0 && <LookedAtAndLeft advice={advice} />}
      <HowFound job={job} result={advice} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={advice} />
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
        <h1 className="text-2xl leading-tight font-semibold tracking-tight sm:text-4xl">
          {adviceHeadline(advice).sentence}
        </h1>
        <p className="mt-3 max-w-3xl text-pretty text-soft sm:text-lg">{adviceDetail(advice)}</p>
        {today && (
          <p className="mt-5 flex flex-wrap gap-x-10 gap-y-3">
            <NamedNumber name="batch today" value={batchWords(advice.current_batch_size, advice.recipe)} />
            <NamedNumber name="samples per second" value={perSecond(today.samples_per_second ?? 0)} />
            <NamedNumber name="GPU memory" value={bytes(heldBytes(advice.info, today))} />
          </p>
        )}
      </div>
    </div>
  );
}

/** What a lost worker kept from the advice. */
function NotLookedAt({ advice }: { advice: Advice }) {
  return (
    <Card title="Incomplete: run it again">
      <dl className="divide-y divide-line text-sm">
        {advice.faults?.map(({ title, reason }) => (
          <div
            key={title + reason}
            className="grid grid-cols-1 gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0 sm:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]"
          >
            <dt className="font-medium">{sentence(title)}</dt>
            <dd className="text-soft">Could not be looked at: {reason}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function LookedAtAndLeft({ advice }: { advice: Advice }) {
  return (
    <Card title="Looked at and left">
      <dl className="divide-y divide-line text-sm">
        {advice.refused.map(({ title, why }) => (
          <div
            key={title + why}
            className="grid grid-cols-1 gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0 sm:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]"
          >
            <dt className="font-medium">{sentence(title)}</dt>
            <dd className="text-soft">{sentence(why)}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

import { useState } from "react";
import type { Analysis, Job } from "../api/types";
import { answerColumns, throughputPoints } from "../charts/chart-data";
import { MemoryChart, ThroughputChart } from "../charts/lazy";
import { AnalyzeAnother } from "../result/AnalyzeAnother";
import { AskAdvice } from "../result/AskAdvice";
import { ChangeQuestion } from "../result/ChangeQuestion";
import { snippets } from "../result/code-snippets";
import { CodeCard } from "../result/CodeCard";
import { ExportButtons } from "../result/ExportButtons";
import { HeadlineCard } from "../result/HeadlineCard";
import { HowFound } from "../result/HowFound";
import { JobTitle } from "../result/JobTitle";
import { RunAgain } from "../result/RunAgain";
import { sourceWords } from "../result/source";
import { count } from "../shared/format";
import { rateUnit } from "../shared/rate";
import { link } from "../shared/route";
import { LinkButton } from "../ui/Button";
import { Card } from "../ui/Card";
import { learningRateHint, memoryWords } from "./analysis";
import { BatchSizes } from "./BatchSizes";
import { BreakdownCard } from "./BreakdownCard";
import { CostCalculator } from "./CostCalculator";
import { trialsCsv } from "./csv";
import { analysisDetail, analysisHeadline } from "./headline";
import { GpuBarsCard } from "./GpuBarsCard";
import { MemoryBars } from "./MemoryBars";
import { NO_PRICE, type CostInput } from "./savings";
import { StatCards } from "./StatCards";

interface AnalysisViewProps {
  job: Job;
  analysis: Analysis;
  model: string;
  /** Which of several analyses of a job it is, opened from their table: a GPU, or a length. */
  part?: string | null;
}

/** The answer. */
export function AnalysisView({ job, analysis, model, part = null }: AnalysisViewProps) {
  const [cost, setCost] = useState<CostInput>(() => costOf(analysis));
  const batchSize = analysis.recommended_batch_size ?? analysis.max_batch_size;
  return (
    <div className="space-y-6">
      <JobTitle
        job={job}
        model={model}
        place={analysis.gpu_name}
        sample={analysis.sample}
        source={analysis.source}
        isSmall={analysis.small}
      >
        {part ? (
          <LinkButton href={link.job(job.id)}>Back to all</LinkButton>
        ) : (
          <LinkButton href={link.compare([job.id])}>Compare</LinkButton>
        )}
        <ChangeQuestion job={job} part={part} />
        <AskAdvice job={job} part={part} />
        <AnalyzeAnother />
      </JobTitle>
      <HeadlineCard headline={analysisHeadline(analysis)} detail={analysisDetail(analysis)} />
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <MemoryBars analysis={analysis} />
        <BatchSizes analysis={analysis} />
      </div>
      <GpuBarsCard analysis={analysis} />
      <StatCards analysis={analysis} cost={cost} />
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
        <Card title="Memory by batch size" note={memoryWords(analysis)}>
          <MemoryChart columns={answerColumns(analysis)} limit={analysis.gpu_total_gb} />
        </Card>
        <Card title="Throughput by batch size" note={`Trained ${rateUnit(analysis.trials)} per second.`}>
          <ThroughputChart
            points={throughputPoints(analysis.trials)}
            today={analysis.current_batch_size}
            recommended={analysis.recommended_batch_size}
            thrashing={analysis.thrashing_batch_sizes}
          />
        </Card>
      </div>
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
        <BreakdownCard analysis={analysis} />
        {analysis.code && (
          <CodeCard
            title={`Use batch ${count(batchSize)}`}
            snippets={snippets(analysis.code)}
            batchSize={batchSize}
            hint={learningRateHint(analysis.current_batch_size, batchSize) ?? undefined}
          />
        )}
      </div>
      <CostCalculator analysis={analysis} cost={cost} onChange={setCost} />
      <HowFound job={job} result={analysis} source={sourceWords(analysis)} notes={thrashingNotes(analysis)} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={analysis} csv={() => trialsCsv(analysis.trials)} part={part} />
        {!part && <RunAgain job={job} />}
      </div>
    </div>
  );
}

function thrashingNotes({ thrashing_batch_sizes: sizes }: Analysis): string[] {
  if (sizes.length === 0) return [];
  return [`Thrashing at batch ${sizes.join(", ")}: it trains, but the allocator retries or the time per sample jumps.`];
}

function costOf(analysis: Analysis): CostInput {
  return {
    pricePerHour: analysis.price?.usd_per_hour ?? NO_PRICE,
    hoursPerRun: analysis.usage.hours_per_run,
    runsPerYear: analysis.usage.runs_per_year,
    people: analysis.usage.people,
  };
}

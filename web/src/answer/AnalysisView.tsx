import { useState } from "react";
import type { Analysis, Job } from "../api/types";
import { MemoryChart, ThroughputChart } from "../charts/lazy";
import { answerColumns, throughputPoints } from "../logic/chart-data";
import { learningRateHint, memoryWords } from "../logic/analysis";
import { snippets } from "../logic/code-snippets";
import { adviceOn } from "../logic/draft";
import { count } from "../logic/format";
import { analysisDetail, analysisHeadline } from "../logic/headline";
import { link } from "../logic/route";
import { NO_PRICE, type CostInput } from "../logic/savings";
import { ChangeQuestion } from "../running/ChangeQuestion";
import { HeadlineCard } from "../running/HeadlineCard";
import { JobTitle } from "../running/JobTitle";
import { AnalyzeAnother } from "../running/AnalyzeAnother";
import { LinkButton } from "../ui/Button";
import { Card } from "../ui/Card";
import { AskAdvice } from "./AskAdvice";
import { BatchSizes } from "./BatchSizes";
import { BreakdownCard } from "./BreakdownCard";
import { CodeCard } from "./CodeCard";
import { CostCalculator } from "./CostCalculator";
import { ExportButtons } from "./ExportButtons";
import { HowFound } from "./HowFound";
import { MemoryBars } from "./MemoryBars";
import { RunAgain } from "./RunAgain";
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
        model={model}
        place={analysis.gpu_name}
        recipe={analysis.recipe}
        sample={analysis.sample}
        source={analysis.source}
        isSmall={analysis.small}
      >
        {part ? (
          <LinkButton href={link.job(job.id)}>Back to all</LinkButton>
        ) : (
          <LinkButton href={link.compare([job.id])}>Compare</LinkButton>
        )}
        <ChangeQuestion job={job} request={part ? analysis.request : undefined} />
        <AskAdvice body={adviceOn(job.question, analysis.request)} />
        <AnalyzeAnother />
      </JobTitle>
      <HeadlineCard headline={analysisHeadline(analysis)} detail={analysisDetail(analysis)} />
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <MemoryBars analysis={analysis} />
        <BatchSizes analysis={analysis} />
      </div>
      <StatCards analysis={analysis} cost={cost} />
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
        <Card title="Memory by batch size" note={memoryWords(analysis)}>
          <MemoryChart columns={answerColumns(analysis)} limit={analysis.gpu_total_gb} limitName="All there is" />
        </Card>
        <Card title="Throughput by batch size" note="Training samples per second.">
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
      <HowFound job={job} result={analysis} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={analysis} part={part ?? undefined} />
        {!part && <RunAgain job={job} />}
      </div>
    </div>
  );
}

function costOf(analysis: Analysis): CostInput {
  return {
    pricePerHour: analysis.price?.usd_per_hour ?? NO_PRICE,
    hoursPerRun: analysis.usage.hours_per_run,
    runsPerYear: analysis.usage.runs_per_year,
    people: analysis.usage.people,
  };
}

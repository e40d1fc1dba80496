import { useState } from "react";
import type { Comparison, Contender, Job } from "../api/types";
import { AnalyzeAnother } from "../result/AnalyzeAnother";
import { ChangeQuestion } from "../result/ChangeQuestion";
import { ExportButtons } from "../result/ExportButtons";
import { HeadlineCard } from "../result/HeadlineCard";
import { SYNTHETIC } from "../result/HowFound";
import { JobTitle } from "../result/JobTitle";
import { RunAgain } from "../result/RunAgain";
import { count, dollars, hours, perSecond, shortGpuName } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { link } from "../shared/route";
import { capitalized } from "../shared/text";
import { Badge } from "../ui/Badge";
import { BarCell } from "../ui/BarCell";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { SegmentField } from "../ui/fields";
import { ScrollTable } from "../ui/ScrollTable";
import { gpusCsv } from "./csv";
import { comparisonDetail, comparisonHeadline } from "./headline";
import { ranked, shortlist, type Ranking } from "./ranking";

const RANKINGS = [
  { value: "speed", label: "By speed" },
  { value: "cost", label: "By cost" },
] as const;

const COST = "$ per million samples";

interface ComparisonViewProps {
  job: Job;
  comparison: Comparison;
  model: string;
}

/** The same training on every GPU. */
export function ComparisonView({ job, comparison, model }: ComparisonViewProps) {
  const [ranking, setRanking] = useState<Ranking>("speed");
  const hasOwnPrices = Object.keys(comparison.own_prices ?? {}).length > 0;
  const isAll = job.options?.["all_gpus"] === true;
  return (
    <div className="space-y-6">
      <JobTitle job={job} model={model} place={isAll ? "all GPUs" : `${comparison.gpus.length} GPUs`} source={comparison.source}>
        <ChangeQuestion job={job} />
        <AnalyzeAnother />
      </JobTitle>
      <HeadlineCard headline={comparisonHeadline(comparison)} detail={comparisonDetail(comparison)} />
      <Card
        title={isAll ? "All GPUs" : "GPUs"}
        note={`Cost is for a million samples at ${hasOwnPrices ? "your own prices, else the catalog's" : "the catalog's price"}.`}
        action={
          <div className="w-56">
            <SegmentField label="Rank" value={ranking} choices={RANKINGS} onChange={setRanking} />
          </div>
        }
      >
        <GpuTable job={job} comparison={comparison} ranking={ranking} />
        <p className="mt-4 text-sm text-soft">{SYNTHETIC}</p>
      </Card>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={comparison} csv={() => gpusCsv(comparison)} />
        <RunAgain job={job} />
      </div>
    </div>
  );
}

function GpuTable({ job, comparison, ranking }: { job: Job; comparison: Comparison; ranking: Ranking }) {
  const [isWhole, setWhole] = useState(false);
  const everyone = ranked(comparison.gpus, ranking);
  const gpus = isWhole ? everyone : shortlist(everyone);
  const fastest = Math.max(0, ...gpus.map((gpu) => rateOf(gpu) ?? 0));
  const speed = `${capitalized(rateUnit(gpus))} per second`;
  const hasRuns = gpus.some((gpu) => gpu.whole_run);
  const dearest = Math.max(0, ...gpus.map((gpu) => gpu.usd_per_million_samples ?? 0));
  const isByCost = ranking === "cost";
  const speedCell = (gpu: Contender) => (
    <td>
      <BarCell value={rateOf(gpu)} most={fastest} words={perSecond} color="bg-sky" nothing="" />
    </td>
  );
  return (
    <>
      <ScrollTable label="Ranking">
        <table className="w-full min-w-[44rem] text-sm">
          <caption className="sr-only">GPUs, ranked by {ranking}</caption>
          <thead>
            <tr className="text-left text-xs text-soft [&>th]:px-2 [&>th]:pb-2 [&>th]:font-medium">
              <th scope="col">
                <span className="sr-only">Rank</span>
              </th>
              <th scope="col">GPU</th>
              {(isByCost ? [COST, speed] : [speed, COST]).map((name) => (
                <th key={name} scope="col" className="w-[24%]">
                  {name}
                </th>
              ))}
              {hasRuns && (
                <th scope="col" className="text-right">
                  Whole run
                </th>
              )}
              <th scope="col" className="text-right">
                Recommended
              </th>
              <th scope="col" className="text-right">
                Maximum
              </th>
              <th scope="col" className="text-right">
                Price
              </th>
            </tr>
          </thead>
          <tbody>
            {gpus.map((gpu, index) => (
              <tr key={gpu.gpu} className="border-t border-line [&>td]:px-2 [&>td]:py-2 [&>td]:whitespace-nowrap">
                <td className="w-8 text-right text-faint">{index + 1}</td>
                <td>
                  <GpuName job={job} gpu={gpu} comparison={comparison} />
                </td>
                {gpu.fits ? (
                  <>
                    {!isByCost && speedCell(gpu)}
                    <td>
                      <BarCell
                        value={gpu.usd_per_million_samples}
                        most={dearest}
                        words={dollars}
                        color="bg-warn"
                        nothing={gpu.memory_only ? "memory only" : "no price"}
                      />
                    </td>
                    {isByCost && speedCell(gpu)}
                    {hasRuns && <td className="text-right">{runWords(gpu)}</td>}
                    <td className="text-right font-semibold text-accent">
                      {gpu.memory_only ? "–" : gpu.recommended_batch_size === null ? "none" : count(gpu.recommended_batch_size)}
                    </td>
                    <td className="text-right">{count(gpu.max_batch_size ?? 0)}</td>
                  </>
                ) : (
                  <td colSpan={hasRuns ? 5 : 4} className="text-bad-ink">
                    Does not fit
                  </td>
                )}
                <td className="text-right text-soft">{gpu.price ? `$${gpu.price.usd_per_hour.toFixed(2)}/h` : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollTable>
      {gpus.length < everyone.length && (
        <Button onClick={() => setWhole(true)} className="mt-3 w-full">
          Show all {everyone.length} GPUs
        </Button>
      )}
    </>
  );
}

function runWords({ whole_run: run }: Contender): string {
  if (!run) return "–";
  return [hours(run.hours), ...(run.usd === null ? [] : [dollars(run.usd)])].join(", ");
}

function GpuName({ job, gpu, comparison }: { job: Job; gpu: Contender; comparison: Comparison }) {
  const name = shortGpuName(gpu.gpu_name);
  return (
    <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
      {gpu.fits ? (
        <a
          href={link.job(job.id, gpu.gpu)}
          className="font-medium whitespace-nowrap underline decoration-edge underline-offset-4 hover:decoration-accent"
        >
          {name}
        </a>
      ) : (
        <span className="font-medium">{name}</span>
      )}
      {comparison.fastest === gpu.gpu && <Badge tone="good">fastest</Badge>}
      {comparison.cheapest === gpu.gpu && <Badge tone="good">cheapest</Badge>}
    </span>
  );
}

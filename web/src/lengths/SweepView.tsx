import type { Job, Sweep } from "../api/types";
import { AnalyzeAnother } from "../result/AnalyzeAnother";
import { ChangeQuestion } from "../result/ChangeQuestion";
import { ExportButtons } from "../result/ExportButtons";
import { HeadlineCard } from "../result/HeadlineCard";
import { SYNTHETIC } from "../result/HowFound";
import { JobTitle } from "../result/JobTitle";
import { RunAgain } from "../result/RunAgain";
import { count, percent, perSecond } from "../shared/format";
import { link } from "../shared/route";
import { Badge } from "../ui/Badge";
import { BarCell } from "../ui/BarCell";
import { Card } from "../ui/Card";
import { ScrollTable } from "../ui/ScrollTable";
import { lengthsCsv } from "./csv";
import { sweepHeadline } from "./headline";

interface SweepViewProps {
  job: Job;
  sweep: Sweep;
  model: string;
}

/** The same training at several lengths, and the batch to plan with. */
export function SweepView({ job, sweep, model }: SweepViewProps) {
  return (
    <div className="space-y-6">
      <JobTitle job={job} model={model} place={sweep.gpu_name} source={sweep.source}>
        <ChangeQuestion job={job} />
        <AnalyzeAnother />
      </JobTitle>
      <HeadlineCard
        headline={sweepHeadline(sweep)}
        detail={`${sweep.lengths.length} lengths, ${sweep.source} for the ${sweep.gpu_name}.`}
      />
      <Card title="By length" note="Select a length to see its full analysis.">
        <LengthTable job={job} sweep={sweep} />
        <ul className="mt-4 space-y-2 text-sm text-soft">
          {[...sweep.advice, SYNTHETIC].map((sentence) => (
            <li key={sentence} className="border-l-2 border-edge pl-3">
              {sentence}
            </li>
          ))}
        </ul>
      </Card>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <ExportButtons job={job} result={sweep} csv={() => lengthsCsv(sweep)} />
        <RunAgain job={job} />
      </div>
    </div>
  );
}

function LengthTable({ job, sweep }: { job: Job; sweep: Sweep }) {
  const fastest = Math.max(...sweep.lengths.map((length) => length.tokens_per_second ?? 0));
  return (
    <ScrollTable label="Lengths">
      <table className="w-full text-right text-sm">
        <caption className="sr-only">Batch sizes and speed by length</caption>
        <thead>
          <tr className="text-xs text-soft [&>th]:px-1 [&>th]:pb-2 [&>th]:font-medium sm:[&>th]:px-2">
            <th scope="col" className="text-left">
              Tokens
            </th>
            <th scope="col">Maximum</th>
            <th scope="col">Recommended</th>
            <th scope="col" className="hidden w-2/5 pl-8! text-left sm:table-cell">
              Tokens per second
            </th>
            <th scope="col">
              Lost <span className="hidden sm:inline">at batch {count(sweep.planned_batch_size)}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sweep.lengths.map((length) => (
            <tr key={length.seq_len} className="border-t border-line [&>td]:px-1 [&>td]:py-2 [&>td]:whitespace-nowrap sm:[&>td]:px-2">
              <th scope="row" className="px-1 text-left font-medium sm:px-2">
                <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
                  {length.fits ? (
                    <a
                      href={link.job(job.id, length.seq_len)}
                      className="underline decoration-edge underline-offset-4 hover:decoration-accent"
                    >
                      {count(length.seq_len)}
                    </a>
                  ) : (
                    count(length.seq_len)
                  )}
                  {length.seq_len === sweep.plan_for && <Badge tone="good">plan</Badge>}
                </span>
              </th>
              {length.fits ? (
                <>
                  <td>{count(length.max_batch_size ?? 0)}</td>
                  <td className="font-semibold text-accent">
                    {length.recommended_batch_size === null ? "none" : count(length.recommended_batch_size)}
                  </td>
                  <td className="hidden pl-8! sm:table-cell">
                    <BarCell
                      value={length.tokens_per_second}
                      most={fastest}
                      words={perSecond}
                      color="bg-sky"
                      nothing="–"
                    />
                  </td>
                  <td>{length.lost === null ? "–" : percent(100 * length.lost, 0)}</td>
                </>
              ) : (
                <td colSpan={4} className="text-bad-ink">
                  Does not fit
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollTable>
  );
}

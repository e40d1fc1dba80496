import type { JobSummary } from "../api/types";
import { askedWords, foundNothing, isComparable } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { ago, count, dollars, speedup, when } from "../shared/format";
import { link } from "../shared/route";
import { Badge, SourceBadge, StateBadge } from "../ui/Badge";
import { NamedNumber, type NamedNumberProps } from "../ui/NamedNumber";

interface HistoryListProps {
  jobs: readonly JobSummary[];
  picked: readonly string[];
  onToggle: (job: JobSummary) => void;
}

/** Jobs, the latest first: columns where there is room, lines where there is not. */
export function HistoryList({ jobs, picked, onToggle }: HistoryListProps) {
  const { nameOf, outcomeOf } = useJobNames();
  return (
    <ul className="card divide-y divide-line overflow-hidden">
      {jobs.map((job) => (
        <li key={job.id} className="flex items-stretch hover:bg-raised/50">
          <label className="grid w-12 shrink-0 place-items-center">
            <input
              type="checkbox"
              className="size-4 accent-accent disabled:opacity-30"
              aria-label={`Pick ${nameOf(job)} of ${when(job.created_at)}`}
              checked={picked.includes(job.id)}
              disabled={!isComparable(job)}
              onChange={() => onToggle(job)}
            />
          </label>
          <a
            href={link.job(job.id)}
            className="grid min-w-0 grow grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 py-3 pr-4 -outline-offset-2 lg:grid-cols-[minmax(0,1fr)_7rem_7rem_6rem_8rem_7rem]"
          >
            <span className="min-w-0">
              <span className="flex items-center gap-2">
                <span className="truncate font-medium">{nameOf(job)}</span>
                {job.kind === "advice" && <Badge>advice</Badge>}
              </span>
              <span className="block truncate text-xs text-soft lg:hidden">{outcomeOf(job)}</span>
              <span className="block truncate text-xs text-faint lg:hidden">{askedWords(job)}</span>
              <span className="hidden truncate text-xs text-faint lg:block" title={when(job.created_at)}>
                {ago(job.created_at)} · {askedWords(job)} · {job.id}
                {job.origin === "cli" ? " · command line" : ""}
              </span>
            </span>
            <Numbers job={job} outcome={outcomeOf(job)} />
            <span className="justify-self-end">
              {job.state === "done" && job.headline?.source ? (
                <SourceBadge source={job.headline.source} />
              ) : (
                <StateBadge state={job.state} />
              )}
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Numbers({ job, outcome }: { job: JobSummary; outcome: string }) {
  const { headline, state, kind } = job;
  if (!headline || kind === "comparison" || foundNothing(job)) {
    // The badge says the same already.
    const text = state === "done" || state === "failed" ? outcome : "";
    return <span className="col-span-4 hidden truncate text-sm text-soft lg:block">{text}</span>;
  }
  return (
    <>
      <Number
        name="use"
        value={headline.recommended_batch_size === null ? "none" : count(headline.recommended_batch_size)}
        isStrong
      />
      <Number name="maximum" value={headline.max_batch_size === null ? "–" : count(headline.max_batch_size)} />
      <Number name="speedup" value={headline.speedup === null ? "–" : speedup(headline.speedup)} />
      <Number
        name="a year"
        value={headline.cost_savings_annual === null ? "–" : dollars(headline.cost_savings_annual)}
      />
    </>
  );
}

function Number(props: NamedNumberProps) {
  return (
    <span className="hidden lg:block">
      <NamedNumber {...props} />
    </span>
  );
}

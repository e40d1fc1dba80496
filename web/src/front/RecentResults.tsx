import { useJobs } from "../api/queries";
import { isStopped } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { ago } from "../shared/format";
import { link } from "../shared/route";
import { Badge, StateBadge } from "../ui/Badge";

const SHOWN = 4;

/** The latest jobs that have a result or may get one, one line each. */
export function RecentResults() {
  const { data, isPending } = useJobs({});
  const { nameOf, outcomeOf } = useJobNames();
  const jobs = data?.pages[0]?.jobs.filter((job) => !isStopped(job)).slice(0, SHOWN) ?? [];
  return (
    <section aria-labelledby="recent" className="min-h-64">
      <div className="mb-2 flex items-baseline justify-between">
        <h2 id="recent" className="text-sm font-medium text-soft">
          Latest results
        </h2>
        {jobs.length > 0 && (
          <a href={link.history()} className="text-sm text-soft underline hover:text-ink">
            All
          </a>
        )}
      </div>
      {isPending && <div className="skeleton h-40" />}
      {!isPending && jobs.length === 0 && (
        <p className="rounded-xl border border-dashed border-edge p-6 text-sm text-soft">
          No results yet. Your first analysis will appear here.
        </p>
      )}
      {jobs.length > 0 && (
        <ul className="card divide-y divide-line overflow-hidden">
          {jobs.map((job) => (
            <li key={job.id}>
              <a
                href={link.job(job.id)}
                className="flex min-h-14 items-center gap-4 px-4 py-2 -outline-offset-2 hover:bg-raised"
              >
                <span className="min-w-0 grow">
                  <span className="flex items-center gap-2">
                    <span className="truncate text-sm font-medium">{nameOf(job)}</span>
                    {job.kind === "advice" && <Badge>advice</Badge>}
                  </span>
                  <span className="block truncate text-xs text-soft">{outcomeOf(job)}</span>
                </span>
                {job.state === "done" ? (
                  <span className="shrink-0 text-xs text-faint">{ago(job.created_at)}</span>
                ) : (
                  <StateBadge state={job.state} />
                )}
              </a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

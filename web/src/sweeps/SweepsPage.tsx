import { useSweeps } from "../api/queries";
import type { GridSweepSummary } from "../api/types";
import { ProgressBar } from "../running/ProgressBar";
import { ago, when } from "../shared/format";
import { callProblem } from "../shared/problems";
import { link } from "../shared/route";
import { useTitle } from "../shared/use-title";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { SweepBadge } from "./SweepBadge";
import { axesWords, progressWords, sweepName } from "./cases";

/** The sweeps in the history, those that run first of all. */
export function SweepsPage() {
  useTitle("Sweeps");
  const query = useSweeps();
  const sweeps = query.data?.pages.flatMap((page) => page.sweeps) ?? [];
  return (
    <div className="space-y-6">
      <div>
        <h1 className="text-3xl font-semibold tracking-tight">Sweeps</h1>
        <p className="mt-1 text-soft">Many models, recipes and GPUs at once, asked with <code className="font-mono">memorymark sweep</code>.</p>
      </div>
      {query.isError && <ErrorBox problem={callProblem(query.error)} onDismiss={() => void query.refetch()} />}
      {query.isPending && !query.isError && <div className="skeleton h-96" />}
      {query.isSuccess && sweeps.length === 0 && <NoSweeps />}
      {sweeps.length > 0 && (
        <ul className="card divide-y divide-line overflow-hidden">
          {sweeps.map((sweep) => (
            <SweepLine key={sweep.id} sweep={sweep} />
          ))}
        </ul>
      )}
      {query.hasNextPage && (
        <div className="text-center">
          <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
            {query.isFetchingNextPage ? "Loading…" : "Older"}
          </Button>
        </div>
      )}
    </div>
  );
}

function SweepLine({ sweep }: { sweep: GridSweepSummary }) {
  const progress = progressWords(sweep);
  return (
    <li className="hover:bg-raised/50">
      <a
        href={link.sweep(sweep.id)}
        className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 px-4 py-3 -outline-offset-2 sm:px-5 lg:grid-cols-[minmax(0,1fr)_22rem_6rem]"
      >
        <span className="min-w-0">
          <span className="block truncate font-medium">{sweepName(sweep)}</span>
          <span className="block truncate text-xs text-faint">
            <span title={when(sweep.started_at)}>{ago(sweep.started_at)}</span>
            {sweep.axes.length > 0 && ` · ${axesWords(sweep.axes)}`}
          </span>
        </span>
        <span className="row-start-2 col-span-2 lg:col-span-1 lg:row-start-auto">
          <span className="mb-1 block text-sm text-soft">{progress}</span>
          <ProgressBar value={sweep.total > 0 ? sweep.done / sweep.total : 1} text={progress} />
        </span>
        <span className="col-start-2 row-start-1 justify-self-end lg:col-start-auto lg:row-start-auto">
          <SweepBadge state={sweep.state} />
        </span>
      </a>
    </li>
  );
}

function NoSweeps() {
  return (
    <div className="rounded-xl border border-dashed border-edge px-6 py-16 text-center">
      <p className="font-medium">No sweeps yet</p>
      <p className="mt-1 text-sm text-soft">
        Run <code className="rounded bg-raised px-1 py-0.5 font-mono text-ink">memorymark sweep sweep.yaml</code> with the
        history of this server, and watch it here.
      </p>
    </div>
  );
}

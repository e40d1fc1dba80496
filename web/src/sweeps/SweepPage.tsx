import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../api/errors";
import { useSweep } from "../api/queries";
import type { GridSweep } from "../api/types";
import { JobLoading } from "../job/JobLoading";
import { SYNTHETIC } from "../result/HowFound";
import { ProgressBar } from "../running/ProgressBar";
import { announce } from "../shared/announce";
import { count, when } from "../shared/format";
import { link } from "../shared/route";
import { useTitle } from "../shared/use-title";
import { LinkButton } from "../ui/Button";
import { Card } from "../ui/Card";
import { CaseTable } from "./CaseTable";
import { ContestCard } from "./ContestCard";
import { Filters } from "./Filters";
import { SweepBadge } from "./SweepBadge";
import { SweepExports } from "./SweepExports";
import { axesWords, isNarrowed, marksOf, progressWords, shownCases, sweepName, type View } from "./cases";
import { readView, viewQuery } from "./view-address";

/** Browsers refuse an address that changes with every letter of a fast typist. */
const WRITE_AFTER_MS = 250;

interface SweepPageProps {
  id: string;
  /** The view that the address asks for. */
  view: string;
}

/** A sweep, while it runs and after. */
export function SweepPage({ id, view }: SweepPageProps) {
  const { data: sweep, error } = useSweep(id);
  useTitle(sweep ? `Sweep ${sweepName(sweep)}` : "Sweep");
  useEndTold(sweep);
  if (sweep) return <SweepView sweep={sweep} asked={view} />;
  if (error instanceof ApiError && error.status !== 401) return <UnknownSweep />;
  return <JobLoading />;
}

function SweepView({ sweep, asked }: { sweep: GridSweep; asked: string }) {
  const [view, setView] = useView(sweep, asked);
  const { cases, groups } = sweep;
  const shown = useMemo(() => shownCases(cases, view), [cases, view]);
  const marks = useMemo(() => marksOf(groups ?? []), [groups]);
  return (
    <div className="space-y-6">
      <Title sweep={sweep} />
      <Card
        title="Cases"
        note="Use is the batch worth using, Maximum the largest that trains. Select a case to see its full answer."
      >
        <Filters axes={sweep.axes} view={view} onChange={setView} />
        <p role="status" className="mt-4 mb-3 text-sm text-soft">
          {isNarrowed(view) ? `${count(shown.length)} of ${count(cases.length)} cases` : `${count(cases.length)} cases`}
        </p>
        {shown.length > 0 ? <CaseTable cases={shown} axes={sweep.axes} marks={marks} /> : <p className="py-8 text-center">Nothing matches</p>}
        <p className="mt-4 text-sm text-soft">
          Fastest and cheapest are named only where the uncertainty of no other case of the same model and samples
          reaches that far. {SYNTHETIC}
        </p>
      </Card>
      <ContestCard groups={groups ?? []} cases={cases} />
      <SweepExports sweep={sweep} address={pageAddress(link.sweep(sweep.id, viewQuery(view)))} />
    </div>
  );
}

function Title({ sweep }: { sweep: GridSweep }) {
  const progress = progressWords(sweep);
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="text-2xl font-semibold tracking-tight">Sweep {sweepName(sweep)}</h1>
        <SweepBadge state={sweep.state} />
      </div>
      <p className="text-sm text-soft">
        {[`Started ${when(sweep.started_at)}`, axesWords(sweep.axes)].filter(Boolean).join(" · ")}
      </p>
      <div>
        <p className="mb-1.5 text-sm">{progress}</p>
        <ProgressBar value={sweep.total > 0 ? sweep.done / sweep.total : 1} text={progress} />
      </div>
      {sweep.state === "stopped" && (
        <p className="text-sm text-warn">
          Stopped before all cases were answered. The same command goes on with what is missing.
        </p>
      )}
    </div>
  );
}

function pageAddress(hash: string): string {
  return new URL(hash, window.location.href).href;
}

/** The view, which lives in the address of the page. */
function useView(sweep: GridSweep, asked: string): [View, (view: View) => void] {
  const [view, setView] = useState(() => readView(asked, sweep.axes));
  const query = viewQuery(view);
  // What is written here comes back as what is asked; anything else came by a link.
  const written = useRef(asked);
  const before = useRef(asked);
  useEffect(() => {
    if (asked === before.current) return;
    before.current = asked;
    if (asked !== written.current) setView(readView(asked, sweep.axes));
  }, [asked, sweep.axes]);
  // At once, so that whoever follows a link finds the view again; but a search only when its letters have been typed.
  const searched = useRef(view.search);
  useEffect(() => {
    const write = () => {
      written.current = query;
      searched.current = view.search;
      const address = link.sweep(sweep.id, query);
      if (window.location.hash !== address) window.history.replaceState(window.history.state, "", address);
    };
    if (searched.current === view.search) return write();
    const timer = setTimeout(write, WRITE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [sweep.id, query, view.search]);
  return [view, setView];
}

/** Says once that a sweep has ended that was seen running. */
function useEndTold(sweep: GridSweep | undefined): void {
  const before = useRef(sweep?.state);
  useEffect(() => {
    if (sweep && before.current === "running" && sweep.state !== "running") {
      announce(`The sweep has ${sweep.state === "finished" ? "finished" : "stopped"}: ${progressWords(sweep)}.`);
    }
    before.current = sweep?.state;
  }, [sweep]);
}

function UnknownSweep() {
  return (
    <div className="mx-auto max-w-2xl space-y-6 py-8">
      <h1 className="text-2xl font-semibold">No sweep at this link</h1>
      <p className="text-soft">The link may be wrong, or the history was cleared.</p>
      <LinkButton href={link.sweeps()}>All sweeps</LinkButton>
    </div>
  );
}

import { useState } from "react";
import { useJobs, useModels } from "../api/queries";
import type { JobSummary, State } from "../api/types";
import { callProblem } from "../shared/problems";
import { link } from "../shared/route";
import { capitalized } from "../shared/text";
import { useSettled } from "../shared/use-settled";
import { useTitle } from "../shared/use-title";
import { Button, LinkButton } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { SelectField } from "../ui/fields";
import { HistoryList } from "./HistoryList";

const ANY = "any";
const SEARCH_AFTER_MS = 250;
const STATES = [
  { value: ANY, label: "Any state" },
  ...(["done", "running", "queued", "failed", "cancelled", "interrupted"] as const).map((state) => ({
    value: state,
    label: capitalized(state),
  })),
] as const;

/** What was asked before. */
export function HistoryPage() {
  useTitle("History");
  const { data: models = [] } = useModels();
  const [model, setModel] = useState(ANY);
  const [state, setState] = useState<State | typeof ANY>(ANY);
  const [search, setSearch] = useState("");
  const wanted = useSettled(search.trim(), SEARCH_AFTER_MS);
  const [picked, setPicked] = useState<string[]>([]);
  const query = useJobs({
    model: model === ANY ? undefined : model,
    state: state === ANY ? undefined : state,
    search: wanted || undefined,
  });
  const jobs = query.data?.pages.flatMap((page) => page.jobs) ?? [];
  const toggle = (job: JobSummary) =>
    setPicked((before) => (before.includes(job.id) ? before.filter((id) => id !== job.id) : [...before, job.id]));

  return (
    <div className="space-y-6">
      <div className="flex flex-wrap items-end justify-between gap-4">
        <div>
          <h1 className="text-3xl font-semibold tracking-tight">History</h1>
          <p className="mt-1 text-soft">Every question this server was asked. Pick two or more to compare them.</p>
        </div>
        {picked.length >= 2 ? (
          <LinkButton look="primary" href={link.compare(picked)}>
            Compare {picked.length}
          </LinkButton>
        ) : (
          <Button disabled>Compare</Button>
        )}
      </div>
      <div className="grid grid-cols-1 gap-4 sm:grid-cols-[minmax(0,1fr)_12rem_12rem]">
        <SearchField value={search} onChange={setSearch} />
        <SelectField
          label="Model"
          value={model}
          choices={[
            { value: ANY, label: "Any model" },
            ...models.map((entry) => ({ value: entry.id, label: entry.name })),
          ]}
          onChange={setModel}
        />
        <SelectField label="State" value={state} choices={STATES} onChange={setState} />
      </div>
      {query.isError && <ErrorBox problem={callProblem(query.error)} onDismiss={() => void query.refetch()} />}
      <p role="status" className="sr-only">
        {query.isPending ? "Loading" : `${jobs.length} ${jobs.length === 1 ? "entry" : "entries"}`}
      </p>
      {query.isPending && !query.isError && <div className="skeleton h-96" />}
      {query.isSuccess && jobs.length === 0 && (
        <NothingFound isFiltered={wanted !== "" || model !== ANY || state !== ANY} />
      )}
      {jobs.length > 0 && <HistoryList jobs={jobs} picked={picked} onToggle={toggle} />}
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

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <div>
      <label htmlFor="history-search" className="mb-1.5 block text-sm font-medium">
        Search
      </label>
      <input
        id="history-search"
        type="search"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        placeholder="A model, a GPU, an id, an error"
        className="field placeholder:text-faint"
      />
    </div>
  );
}

function NothingFound({ isFiltered }: { isFiltered: boolean }) {
  return (
    <div className="rounded-xl border border-dashed border-edge px-6 py-16 text-center">
      <p className="font-medium">{isFiltered ? "Nothing matches" : "Nothing yet"}</p>
      <p className="mt-1 text-sm text-soft">
        {isFiltered
          ? "Try other words, or any model and any state."
          : "Your first analysis will appear here."}
      </p>
      {!isFiltered && (
        <LinkButton look="primary" href={link.analyze()} className="mt-5">
          Start an analysis
        </LinkButton>
      )}
    </div>
  );
}

import { useJobs, useManyJobs } from "../api/queries";
import { answerOf, type Analysis, type Job } from "../api/types";
import { askedWords, isComparable } from "../result/summary";
import { useJobNames } from "../result/use-job-names";
import { ago } from "../shared/format";
import { callProblem } from "../shared/problems";
import { link } from "../shared/route";
import { goTo } from "../shared/use-route";
import { useTitle } from "../shared/use-title";
import { LinkButton } from "../ui/Button";
import { Combobox } from "../ui/Combobox";
import { ErrorBox } from "../ui/ErrorBox";
import { SideBySide, type Column } from "./SideBySide";

/** Results side by side; which ones is in the address. */
export function ComparePage({ ids }: { ids: string[] }) {
  useTitle("Compare");
  const { nameOf, outcomeOf } = useJobNames();
  const { data: history } = useJobs({ state: "done" });
  const queries = useManyJobs(ids);
  const show = (next: readonly string[]) => goTo(link.compare(next));
  const failed = queries.findIndex((query) => query.isError);
  const isLoading = queries.some((query) => query.isPending);
  const columns: Column[] = queries.flatMap(({ data: job }) => {
    const analysis = job && comparedAnalysis(job);
    return analysis ? [{ id: job.id, name: nameOf(job), recipe: job.recipe_words, analysis }] : [];
  });
  const entries = (history?.pages.flatMap((page) => page.jobs) ?? [])
    .filter((job) => isComparable(job) && !ids.includes(job.id))
    .map((job) => ({
      value: job.id,
      label: nameOf(job),
      note: `${askedWords(job)} · ${outcomeOf(job)}`,
      detail: ago(job.created_at),
      group: "From the history",
    }));

  return (
    <div className="space-y-6">
      <div className="grid grid-cols-1 items-end gap-6 lg:grid-cols-[minmax(0,1fr)_26rem]">
        <div>
          <h1 className="text-3xl font-semibold tracking-tight">Compare</h1>
          <p className="mt-1 text-soft">Two or more results side by side. The best in each row is green.</p>
        </div>
        <Combobox
          label="Add a result"
          entries={entries}
          value=""
          onChange={(id) => show([...ids, id])}
          placeholder="Search the history"
          nothing={(typed) => (typed ? `No finished result matches “${typed}”.` : "There is no other finished result.")}
        />
      </div>
      {failed >= 0 && (
        <ErrorBox
          problem={callProblem(queries[failed]!.error)}
          onDismiss={() => show(ids.filter((_, index) => index !== failed))}
        />
      )}
      {columns.length > 0 && (
        <SideBySide columns={columns} onRemove={(id) => show(ids.filter((other) => other !== id))} />
      )}
      {isLoading && columns.length === 0 && <div className="skeleton h-96" />}
      {!isLoading && columns.length < 2 && <AddMore count={columns.length} />}
    </div>
  );
}

/** What is compared of a job: its analysis, or the one at the length to plan for. */
function comparedAnalysis(job: Job): Analysis | null {
  const answer = answerOf(job);
  if (answer?.kind === "sweep") return answer.result.analyses[answer.result.plan_for] ?? null;
  return answer?.kind === "analysis" ? answer.result : null;
}

function AddMore({ count }: { count: number }) {
  return (
    <div className="rounded-xl border border-dashed border-edge px-6 py-16 text-center">
      <p className="font-medium">{count === 0 ? "Nothing to compare yet" : "Add one more"}</p>
      <p className="mt-1 text-sm text-soft">Choose results above, or pick them in the history.</p>
      <div className="mt-5 flex flex-wrap justify-center gap-3">
        <LinkButton href={link.history()}>History</LinkButton>
        <LinkButton href={link.gpus()}>Compare all GPUs instead</LinkButton>
      </div>
    </div>
  );
}

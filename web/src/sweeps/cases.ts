// Which cases of a sweep to show, in which order, and what is said of each.
import type { GridSweep, SweepAxis, SweepCase, SweepGroup } from "../api/types";
import { dollars, hours, shortGpuName } from "../shared/format";
import { rateOf } from "../shared/rate";

export const ORDERS = ["given", "speed", "cost", "batch"] as const;
export type Order = (typeof ORDERS)[number];

/** What of a sweep is shown; `chosen` has the key of a value for each axis that is narrowed. */
export interface View {
  chosen: Readonly<Record<string, string>>;
  onlyFitting: boolean;
  search: string;
  order: Order;
}

export const WHOLE_VIEW: View = { chosen: {}, onlyFitting: false, search: "", order: "given" };

/** A value of an axis as a text, for a list to choose from and for an address. */
export function valueKey(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
}

export function isNarrowed(view: View): boolean {
  return view.onlyFitting || view.search.trim() !== "" || Object.keys(view.chosen).length > 0;
}

/** The cases to show, in order. */
export function shownCases(cases: readonly SweepCase[], view: View): SweepCase[] {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = cases.filter((one) => isChosen(one, view) && words.every((word) => textOf(one).includes(word)));
  return ordered(found, view.order);
}

function isChosen(one: SweepCase, { chosen, onlyFitting }: View): boolean {
  if (onlyFitting && one.state !== "done") return false;
  return Object.entries(chosen).every(([axis, key]) => valueKey(one.options[axis] ?? null) === key);
}

function textOf(one: SweepCase): string {
  const values = Object.values(one.options).map(valueKey);
  return [one.model_name, one.gpu_name, one.sample, one.recipe, one.state, one.error, ...values].join(" ").toLowerCase();
}

/** The best first; what has no such number last, in the order of the sweep. */
export function ordered(cases: readonly SweepCase[], order: Order): SweepCase[] {
  if (order === "given") return [...cases].sort((a, b) => a.number - b.number);
  const rank = RANKS[order];
  return [...cases].sort((a, b) => compare(rank(a), rank(b)) || a.number - b.number);
}

const RANKS: Record<Exclude<Order, "given">, (one: SweepCase) => number> = {
  speed: (one) => -(rateOf(one) ?? -Infinity),
  cost: (one) => costOf(one) ?? Infinity,
  batch: (one) => -(one.max_batch_size ?? -Infinity),
};

/** Two infinite ranks are equal, although their difference is none. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

/** Dollars of the whole run if it is known how much is trained, else of a million samples. */
export function costOf(one: SweepCase): number | null {
  return one.whole_run ? one.whole_run.usd : one.usd_per_million_samples;
}

/** `$12.40` for a million samples, `3.20 h, $12.40` for a whole run. */
export function costWords(one: SweepCase): string {
  const cost = costOf(one);
  const price = cost === null ? [] : [dollars(cost)];
  return [...(one.whole_run ? [hours(one.whole_run.hours)] : []), ...price].join(", ");
}

export type Mark = "fastest" | "cheapest" | "may be fastest" | "may be cheapest" | "on the front";
/** Of more that may be the best, none is marked. */
const MOST_CANDIDATES = 3;

/** What each case is the best at among those of the same model and samples. */
export function marksOf(groups: readonly SweepGroup[]): Map<number, Mark[]> {
  const marks = new Map<number, Mark[]>();
  const add = (numbers: readonly number[], mark: Mark) => {
    for (const number of numbers) marks.set(number, [...(marks.get(number) ?? []), mark]);
  };
  const addBest = (best: readonly number[], certain: Mark, perhaps: Mark) => {
    if (best.length <= MOST_CANDIDATES) add(best, best.length === 1 ? certain : perhaps);
  };
  for (const group of groups) {
    addBest(group.fastest_candidates, "fastest", "may be fastest");
    addBest(group.cheapest_candidates, "cheapest", "may be cheapest");
    add(group.front, "on the front");
  }
  return marks;
}

/** The sample and the recipe of a case, and what varies besides: `128 tokens`, `bf16, AdamW`, `Margin 0.1`. */
export function detailsOf(one: SweepCase, axes: readonly SweepAxis[]): string[] {
  const others = axes.filter((axis) => !axis.in_words);
  const values = others.flatMap((axis) => {
    const key = valueKey(one.options[axis.name] ?? null);
    const found = axis.values.find(({ value }) => valueKey(value) === key);
    return found ? [`${axis.title} ${found.label}`] : [];
  });
  return [one.sample, one.recipe, ...values].filter(Boolean);
}

/** `GPU: A10, L4 · Precision: bf16, fp32`. */
export function axesWords(axes: readonly SweepAxis[]): string {
  return axes.map((axis) => `${axis.title}: ${axis.values.map(({ label }) => shortGpuName(label)).join(", ")}`).join(" · ");
}

/** The name of a sweep: that of its file. */
export function sweepName({ source }: Pick<GridSweep, "source">): string {
  return source || "From the command line";
}

/** `12 of 60 cases, 1 failed, about 3 min left`. */
export function progressWords(sweep: Pick<GridSweep, "done" | "total" | "failed" | "reused" | "seconds_left">): string {
  const { done, total, failed, reused, seconds_left: left } = sweep;
  return [
    done === total ? `${total} ${total === 1 ? "case" : "cases"}` : `${done} of ${total} cases`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(reused > 0 ? [`${reused} from the history`] : []),
    ...(left !== null && done < total ? [`about ${leftWords(left)} left`] : []),
  ].join(", ");
}

/** `40 s`, `12 min`, `5.20 h`. */
export function leftWords(seconds: number): string {
  if (seconds < 100) return `${Math.max(Math.round(seconds), 1)} s`;
  return seconds < 6_000 ? `${Math.round(seconds / 60)} min` : hours(seconds / 3_600);
}

// The view of a sweep in the address of its page, so that a link and the browser's back button bring it back.
import type { SweepAxis } from "../api/types";
import { ORDERS, WHOLE_VIEW, valueKey, type View } from "./cases";

// No options, so that no axis has these names.
const [SEARCH, ONLY, SORT, FITTING] = ["find", "only", "sort", "fits"];

export function viewQuery(view: View): string {
  const query = new URLSearchParams(view.chosen);
  if (view.onlyFitting) query.set(ONLY, FITTING);
  if (view.search.trim()) query.set(SEARCH, view.search.trim());
  if (view.order !== WHOLE_VIEW.order) query.set(SORT, view.order);
  return query.toString();
}

/** What an address says, as far as the sweep has it. */
export function readView(query: string, axes: readonly SweepAxis[]): View {
  const params = new URLSearchParams(query);
  const chosen = axes.flatMap((axis) => {
    const key = params.get(axis.name);
    return key !== null && axis.values.some(({ value }) => valueKey(value) === key) ? [[axis.name, key]] : [];
  });
  return {
    chosen: Object.fromEntries(chosen) as Record<string, string>,
    onlyFitting: params.get(ONLY) === FITTING,
    search: params.get(SEARCH) ?? "",
    order: ORDERS.find((order) => order === params.get(SORT)) ?? WHOLE_VIEW.order,
  };
}

// Addresses after the #, so that a link survives a reload.

export type Route =
  | { page: "analyze" }
  | { page: "gpus" }
  | { page: "history" }
  | { page: "sweeps" }
  | { page: "sweep"; id: string; view: string }
  | { page: "compare"; ids: string[] }
  | { page: "job"; id: string; part: string | null }
  | { page: "unknown" };

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const params = new URLSearchParams(query);
  const [page = "", id = ""] = path.split("/");
  if (page === "") return { page: "analyze" };
  if (page === "gpus" || page === "history" || page === "sweeps") return { page };
  if (page === "sweep" && id) return { page, id, view: query };
  if (page === "compare") return { page, ids: [...new Set((params.get("ids") ?? "").split(",").filter(Boolean))] };
  if (page === "job" && id) return { page, id, part: params.get("part") };
  return { page: "unknown" };
}

/** A page with the form, and the question in its address; null for other pages. */
export function formAddress(hash: string): { path: string; query: string } | null {
  const { page } = parseRoute(hash);
  if (page !== "analyze" && page !== "gpus") return null;
  return { path: link[page](), query: hash.split("?", 2)[1] ?? "" };
}

export const link = {
  analyze: (question = "") => `#/${question && `?${question}`}`,
  gpus: (question = "") => `#/gpus${question && `?${question}`}`,
  history: () => "#/history",
  sweeps: () => "#/sweeps",
  /** `view` says which cases are shown, and in which order. */
  sweep: (id: string, view = "") => `#/sweep/${id}${view && `?${view}`}`,
  compare: (ids: readonly string[] = []) => (ids.length > 0 ? `#/compare?ids=${ids.join(",")}` : "#/compare"),
  /** `part` is one GPU, or one length, of a result that has several. */
  job: (id: string, part?: string | number) => `#/job/${id}${part === undefined ? "" : `?part=${part}`}`,
};

// Addresses after the #, so that a link survives a reload.

export type Route =
  | { page: "analyze" }
  | { page: "gpus" }
  | { page: "history" }
  | { page: "compare"; ids: string[] }
  | { page: "job"; id: string; part: string | null }
  | { page: "unknown" };

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const params = new URLSearchParams(query);
  const [page = "", id = ""] = path.split("/");
  if (page === "") return { page: "analyze" };
  if (page === "gpus" || page === "history") return { page };
  if (page === "compare") return { page, ids: [...new Set((params.get("ids") ?? "").split(",").filter(Boolean))] };
  if (page === "job" && id) return { page, id, part: params.get("part") };
  return { page: "unknown" };
}

export const link = {
  analyze: () => "#/",
  gpus: () => "#/gpus",
  history: () => "#/history",
  compare: (ids: readonly string[] = []) => (ids.length > 0 ? `#/compare?ids=${ids.join(",")}` : "#/compare"),
  /** `part` is one GPU, or one length, of a result that has several. */
  job: (id: string, part?: string | number) => `#/job/${id}${part === undefined ? "" : `?part=${part}`}`,
};

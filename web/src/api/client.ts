// Calls to the service, typed by its OpenAPI document.
import createClient from "openapi-fetch";
import { UnreachableError, refusal } from "./errors";
import type { paths } from "./schema";
import { firstOf } from "./signals";
import { tokenState } from "./token";
import type { Job, Values } from "./types";

export const API_URL = (import.meta.env?.VITE_API_URL ?? "").replace(/\/+$/, "");
const TIMEOUT_MS = 20_000;

export const service = createClient<paths>({
  baseUrl: API_URL,
  headers: { Accept: "application/json" },
  fetch: inTime,
});

service.use({
  onRequest({ request }) {
    const { token } = tokenState();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
  },
});

async function inTime(request: Request): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(request, { signal: firstOf(request.signal, timeout) });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new UnreachableError(timeout.aborted);
  }
}

/** The JSON that an address answers. */
type Content<Path extends keyof paths> = paths[Path]["get"] extends {
  responses: { 200: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;
type JobAnswer = { reused: boolean; job: Job };

/** The answer of a call; throws the error if it was refused. */
export async function answered<T>(call: Promise<{ data?: unknown; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok) throw refusal(response, error);
  return data as T;
}

export type JobsFilter = NonNullable<paths["/jobs"]["get"]["parameters"]["query"]>;
type Abortable = { signal?: AbortSignal };

const of = (id: string) => ({ path: { job_id: id } });

export const api = {
  health: ({ signal }: Abortable = {}) => answered<Content<"/health">>(service.GET("/health", { signal })),
  models: ({ signal }: Abortable = {}) => answered<Content<"/models">>(service.GET("/models", { signal })),
  gpus: async ({ signal }: Abortable = {}) => (await answered<Content<"/gpus">>(service.GET("/gpus", { signal }))).gpus,
  options: async ({ signal }: Abortable = {}) =>
    (await answered<Content<"/options">>(service.GET("/options", { signal }))).options,
  submit: (values: Values) => answered<JobAnswer>(service.POST("/jobs", { body: values as never })),
  job: async (id: string, { signal }: Abortable = {}) =>
    (await answered<JobAnswer>(service.GET("/jobs/{job_id}", { params: of(id), signal }))).job,
  cancel: async (id: string) => (await answered<JobAnswer>(service.DELETE("/jobs/{job_id}", { params: of(id) }))).job,
  jobs: (query: JobsFilter, { signal }: Abortable = {}) =>
    answered<Content<"/jobs">>(service.GET("/jobs", { params: { query }, signal })),
  events: (id: string, after: number, { signal }: Abortable = {}) =>
    answered<Content<"/jobs/{job_id}/events">>(
      service.GET("/jobs/{job_id}/events", { params: { ...of(id), query: { after } }, signal }),
    ),
  sweeps: (query: { before?: string; limit: number }, { signal }: Abortable = {}) =>
    answered<Content<"/sweeps">>(service.GET("/sweeps", { params: { query }, signal })),
  /** The cases that changed after a change. */
  sweep: async (id: string, after: number, { signal }: Abortable = {}) => {
    const params = { path: { sweep_id: id }, query: { after } };
    return (await answered<Content<"/sweeps/{sweep_id}">>(service.GET("/sweeps/{sweep_id}", { params, signal }))).sweep;
  },
  sweepReport: (id: string, form: "html" | "csv" | "json") =>
    answered<string>(
      service.GET("/sweeps/{sweep_id}/report", {
        params: { path: { sweep_id: id }, query: { form } },
        headers: { Accept: "*/*" },
        parseAs: "text",
      }),
    ),
  /** A result, or a part of one, as a page that stands by itself. */
  report: (id: string, part?: string) =>
    answered<string>(
      service.GET("/jobs/{job_id}/report", {
        params: { ...of(id), query: { part } },
        headers: { Accept: "text/html, application/json" },
        parseAs: "text",
      }),
    ),
};

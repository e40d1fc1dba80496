// Calls to the service, and the two ways in which they fail.
import { firstOf } from "./signals";
import { askForToken, tokenState } from "./token";
import type {
  ErrorKind,
  Gpu,
  Health,
  Job,
  JobAnswer,
  JobBody,
  JobEvent,
  JobSummary,
  Model,
  State,
  Task,
} from "./types";

export const API_URL = (import.meta.env?.VITE_API_URL ?? "").replace(/\/+$/, "");
const TIMEOUT_MS = 20_000;

/** The service answered, and the answer is no. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly kind: ErrorKind | null = null,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
  }
}

/** Nobody answered. */
export class UnreachableError extends Error {
  constructor(readonly timedOut: boolean) {
    super(timedOut ? "The server did not answer in time." : "The server cannot be reached.");
  }
}

export function authorization(): Record<string, string> {
  const { token } = tokenState();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

interface CallOptions {
  body?: unknown;
  signal?: AbortSignal;
  accept?: string;
}

async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  return (await (await answered(method, path, options)).json()) as T;
}

async function answered(method: string, path: string, options: CallOptions): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  let response: Response;
  try {
    response = await fetch(API_URL + path, {
      method,
      headers: {
        Accept: options.accept ?? "application/json",
        ...authorization(),
        ...(options.body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: firstOf(options.signal, timeout),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new UnreachableError(timeout.aborted);
  }
  if (response.ok) return response;
  throw await refusal(response);
}

/** What a response that is not ok means. A proxy whose server is away answers without our JSON. */
export async function refusal(response: Response): Promise<ApiError | UnreachableError> {
  const body = (await response.json().catch(() => null)) as { error?: string; kind?: ErrorKind } | null;
  if (!body?.error) return response.status >= 500 ? new UnreachableError(false) : new ApiError(response.status, "");
  if (response.status === 401) askForToken();
  const seconds = Number(response.headers.get("Retry-After"));
  return new ApiError(response.status, body.error, body.kind ?? null, seconds || null);
}

export interface JobsFilter {
  model?: string;
  state?: State;
  search?: string;
  before?: string;
  limit?: number;
}

type Abortable = { signal?: AbortSignal };

export const api = {
  health: ({ signal }: Abortable = {}) => call<Health>("GET", "/health", { signal }),
  models: ({ signal }: Abortable = {}) => call<{ models: Model[]; tasks: Task[] }>("GET", "/models", { signal }),
  gpus: async ({ signal }: Abortable = {}) => (await call<{ gpus: Gpu[] }>("GET", "/gpus", { signal })).gpus,
  submit: (body: JobBody) => call<JobAnswer>("POST", "/jobs", { body }),
  job: async (id: string, { signal }: Abortable = {}): Promise<Job> =>
    (await call<JobAnswer>("GET", jobPath(id), { signal })).job,
  cancel: async (id: string): Promise<Job> => (await call<JobAnswer>("DELETE", jobPath(id))).job,
  events: (id: string, after: number, { signal }: Abortable = {}) =>
    call<{ state: State; events: JobEvent[] }>("GET", `${jobPath(id)}/events?after=${after}`, { signal }),
  /** A result, or a part of one, as a page that stands by itself. */
  report: async (id: string, part?: string): Promise<string> => {
    const query = part === undefined ? "" : `?${new URLSearchParams({ part })}`;
    return (await answered("GET", `${jobPath(id)}/report${query}`, { accept: "text/html, application/json" })).text();
  },
  jobs: (filter: JobsFilter, { signal }: Abortable = {}) => {
    const given = Object.entries(filter).filter(([, value]) => value !== undefined && value !== "");
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return call<{ jobs: JobSummary[]; next: string | null }>("GET", `/jobs?${query}`, { signal });
  },
};

export function jobPath(id: string): string {
  return `/jobs/${encodeURIComponent(id)}`;
}

// The two ways in which a call fails.
import { askForToken } from "./token";
import type { ErrorKind, Fault } from "./types";

/** The service refused. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly kind: ErrorKind | null = null,
    readonly retryAfterSeconds: number | null = null,
    readonly fault: Fault = {},
  ) {
    super(message);
  }
}

/** There was no answer. */
export class UnreachableError extends Error {
  constructor(readonly timedOut: boolean) {
    super(timedOut ? "The server did not answer in time." : "The server cannot be reached.");
  }
}

/** What a response that is not ok means. A proxy whose server is away answers without our JSON. */
export function refusal(response: Response, content: unknown): ApiError | UnreachableError {
  const body = (typeof content === "object" ? content : null) as ({ error?: string; kind?: ErrorKind } & Fault) | null;
  if (!body?.error) return response.status >= 500 ? new UnreachableError(false) : new ApiError(response.status, "");
  if (response.status === 401) askForToken();
  const seconds = Number(response.headers.get("Retry-After"));
  return new ApiError(response.status, body.error, body.kind ?? null, seconds || null, body);
}

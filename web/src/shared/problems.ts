// What went wrong, in words for whoever looks at the page.
import { ApiError, UnreachableError } from "../api/errors";
import type { Job } from "../api/types";
import { capitalized } from "./text";

export interface Problem {
  title: string;
  text: string;
  /** Whether asking the same again may help. */
  retry: boolean;
}

/** A call that failed. */
export function callProblem(error: unknown): Problem {
  if (error instanceof UnreachableError) {
    return error.timedOut
      ? { title: "The server took too long", text: "It did not answer within 20 seconds. It may be busy.", retry: true }
      : { title: "The server cannot be reached", text: "Retrying automatically until it answers.", retry: false };
  }
  if (error instanceof ApiError) return refusalProblem(error);
  return { title: "Something went wrong in this page", text: "Reload it and try again.", retry: true };
}

/** The server is away. From another site it may only seem so, which the page cannot tell apart. */
export function awayProblem(service: string, page: string): Problem {
  const problem = callProblem(new UnreachableError(false));
  if (service === "" || new URL(service, page).origin === page) return problem;
  const how = `This page calls ${service}, which must have been started with --origin ${page}.`;
  return { ...problem, text: `${problem.text} ${how}` };
}

/** A question that could not be asked. */
export function askProblem(error: unknown): Problem {
  if (!(error instanceof UnreachableError)) return callProblem(error);
  return { title: "The question was not sent", text: `${error.message} Try again when it is back.`, retry: true };
}

function refusalProblem(error: ApiError): Problem {
  const text = capitalized(error.message) || "The server did not say why.";
  switch (error.status) {
    case 400:
      return { title: "The server rejected this question", text, retry: false };
    case 401:
      return { title: "The server requires a token", text: "Enter it to continue.", retry: false };
    case 404:
      return { title: "There is no such job", text: "The link may be wrong, or the history was cleared.", retry: false };
    case 429: {
      const wait = error.retryAfterSeconds ? ` Try again in ${error.retryAfterSeconds} seconds.` : "";
      return { title: "The queue is full", text: text + wait, retry: true };
    }
    case 503:
      return { title: "The server is not ready", text, retry: true };
    default:
      return { title: "The server could not do this", text, retry: true };
  }
}

/** A job that ended without an answer. */
export function jobProblem(job: Pick<Job, "state" | "error" | "error_kind">): Problem {
  const text = capitalized(job.error ?? "");
  if (job.state === "cancelled") return { title: "Cancelled", text: "This job was stopped before it finished.", retry: true };
  if (job.state === "interrupted") {
    return {
      title: "Interrupted",
      text: "The server stopped while this job ran. Nothing is wrong with the question.",
      retry: true,
    };
  }
  switch (job.error_kind) {
    case "does_not_fit":
      return { title: "It does not fit", text, retry: false };
    case "time_limit":
      return { title: "It took too long", text, retry: true };
    case "cannot_predict":
      return { title: "This cannot be predicted", text, retry: false };
    case "usage":
      return { title: "This cannot be analyzed as asked", text, retry: false };
    case "worker":
      return { title: "The training process ended early", text, retry: true };
    default:
      return { title: "Something went wrong in the server", text: text || "Its log has the details.", retry: true };
  }
}

import { describe, expect, it } from "vitest";
import { ApiError, UnreachableError, refusal } from "../../src/api/errors";
import type { Job } from "../../src/api/types";
import { askProblem, awayProblem, callProblem, jobProblem } from "../../src/shared/problems";

describe("problems", () => {
  it("say what a service on another site needs", () => {
    const page = "https://page.example.org";
    expect(awayProblem("", page)).toEqual(callProblem(new UnreachableError(false)));
    expect(awayProblem("/api", page)).toEqual(callProblem(new UnreachableError(false)));
    expect(awayProblem("https://gpu.example.org", page).text).toContain("--origin https://page.example.org");
  });

  it("say what happened to a call", () => {
    expect(callProblem(new UnreachableError(false)).title).toBe("The server cannot be reached");
    expect(callProblem(new UnreachableError(true)).title).toBe("The server took too long");
    expect(callProblem(new ApiError(429, "1000 jobs are waiting.", null, 10))).toEqual({
      title: "The queue is full",
      text: "1000 jobs are waiting. Try again in 10 seconds.",
      retry: true,
    });
    expect(callProblem(new ApiError(404, "there is nothing here.")).title).toBe("There is no such job");
    expect(askProblem(new UnreachableError(false)).title).toBe("The question was not sent");
  });

  it("say how a job ended", () => {
    const title = (job: Partial<Job>) =>
      jobProblem({ state: "failed", error: "it failed.", error_kind: null, ...job }).title;
    expect(title({ state: "cancelled" })).toBe("Cancelled");
    expect(title({ state: "interrupted", error_kind: "stopped" })).toBe("Interrupted");
    expect(title({ error_kind: "time_limit" })).toBe("It took too long");
    expect(title({ error_kind: "does_not_fit" })).toBe("It does not fit");
    expect(title({})).toBe("Something went wrong in the server");
  });
});

describe("a response that is not ok", () => {
  it("is told from a proxy's whose server is away", () => {
    const ours = new Response(null, { status: 503, headers: { "Retry-After": "5" } });
    expect(refusal(ours, { status: "error", error: "no." })).toMatchObject({
      status: 503,
      message: "no.",
      retryAfterSeconds: 5,
    });
    expect(refusal(new Response(null, { status: 502 }), "<h1>Bad gateway</h1>")).toBeInstanceOf(UnreachableError);
    expect(refusal(new Response(null, { status: 404 }), "")).toMatchObject({ status: 404, message: "" });
  });

  it("carries what the error is about, and what may help", () => {
    const suggestions = [{ label: "5 %", change: { margin: 0.05 } }];
    const body = { status: "error", error: "no.", kind: "usage", code: "out_of_range", field: "margin", suggestions };
    expect(refusal(new Response(null, { status: 400 }), body)).toMatchObject({
      kind: "usage",
      fault: { code: "out_of_range", field: "margin", suggestions },
    });
  });
});

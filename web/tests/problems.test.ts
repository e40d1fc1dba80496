import { describe, expect, it } from "vitest";
import { ApiError, UnreachableError, refusal } from "../src/api/client";
import type { Job } from "../src/api/types";
import { askProblem, awayProblem, callProblem, jobProblem, sentence } from "../src/logic/problems";

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
      title: "The line is full",
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

  it("tell the service's refusal from a proxy's whose server is away", async () => {
    const ours = Response.json({ status: "error", error: "no." }, { status: 503, headers: { "Retry-After": "5" } });
    expect(await refusal(ours)).toMatchObject({ status: 503, message: "no.", retryAfterSeconds: 5 });
    expect(await refusal(new Response("<h1>Bad gateway</h1>", { status: 502 }))).toBeInstanceOf(UnreachableError);
  });

  it("begin large, but for names", () => {
    const begun = ["does not fit.", "today's recipe", "bf16 autocast", "torch.compile", "channels_last", "8-bit AdamW"];
    expect(begun.map(sentence)).toEqual([
      "Does not fit.",
      "Today's recipe",
      "bf16 autocast",
      "torch.compile",
      "channels_last",
      "8-bit AdamW",
    ]);
  });
});

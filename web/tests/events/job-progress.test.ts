import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../src/api/types";
import { GIB } from "../../src/shared/format";
import { NOTHING_YET, advance, fractionDone } from "../../src/events/job-progress";
import { events } from "../data";

describe("the progress of a job", () => {
  it("collects trials and lines from its events", () => {
    const progress = advance(NOTHING_YET, events);
    expect(progress.state).toBe("done");
    expect(progress.trials).toHaveLength(events.filter((event) => event.event === "trial").length);
    expect(progress.lines).toHaveLength(events.length);
    expect(progress.lines.find((line) => line.mark === "fails")?.text).toContain("out of memory");
  });

  it("knows the memory of the GPU as soon as the search begins", () => {
    const stage = (id: number, data: object): JobEvent => ({ id, event: "stage", at: "", data: { message: "", ...data } });
    const within = stage(1, { stage: "search", capacity_bytes: 20 * GIB, target_bytes: 22 * GIB });
    const progress = advance(NOTHING_YET, [within, stage(2, { stage: "throughput" })]);
    expect(progress.targetBytes).toBe(22 * GIB);
  });

  it("goes on while ways to fit are checked", () => {
    const stages = ["start", "search", "suggest", "suggest", "suggest"].map(
      (stage, index): JobEvent => ({ id: index + 2, event: "stage", at: "", data: { stage, message: "" } }),
    );
    const running: JobEvent = { id: 1, event: "state", at: "", data: { state: "running" } };
    const done = stages.map((_, index) => fractionDone(advance(NOTHING_YET, [running, ...stages.slice(0, index + 1)]), 0, null));
    expect(done).toEqual([...done].sort((a, b) => a - b));
    expect(done.at(-1)).toBeLessThan(1);
  });

  it("is the same whether events come one by one or at once", () => {
    const oneByOne = events.reduce((progress, event) => advance(progress, [event]), NOTHING_YET);
    expect(oneByOne).toEqual(advance(NOTHING_YET, events));
  });

  it("never goes back and ends at 1", () => {
    let progress = NOTHING_YET;
    let before = 0;
    for (const event of events) {
      progress = advance(progress, [event]);
      const now = fractionDone(progress, Date.parse(event.at), null);
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
    expect(before).toBe(1);
  });

  it("counts GPUs where all are asked for", () => {
    const at = "2026-11-15T12:00:00Z";
    const stage = (id: number): JobEvent => ({ id, event: "stage", at, data: { stage: "search", message: "" } });
    const state: JobEvent = { id: 1, event: "state", at, data: { state: "running" } };
    const progress = advance(NOTHING_YET, [state, ...[2, 3, 4, 5, 6].map(stage)]);
    expect(fractionDone(progress, Date.parse(at), 8)).toBeCloseTo(0.35 + 0.65 / 2, 6);
  });

  it("keeps how it ended", () => {
    const ended: JobEvent = {
      id: 1,
      event: "error",
      at: "2026-11-15T12:00:00Z",
      data: { state: "cancelled", error: "cancelled." },
    };
    expect(advance(NOTHING_YET, [ended])).toMatchObject({
      state: "cancelled",
      lines: [{ mark: "error", text: "cancelled." }],
    });
  });
});

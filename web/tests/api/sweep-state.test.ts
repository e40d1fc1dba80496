import { describe, expect, it } from "vitest";
import { merged } from "../../src/api/sweep-state";
import { sweep, sweepCase } from "../sweeps/sweeps";

const waiting = [1, 2, 3].map((number) => sweepCase(number, { state: "waiting" }));
const first = sweep({ cases: waiting, upto: 3, groups: [] });

describe("a sweep that is watched", () => {
  it("begins with all of its cases", () => {
    expect(merged(undefined, first)).toBe(first);
  });

  it("changes only the cases that did", () => {
    const now = merged(first, sweep({ done: 1, cases: [sweepCase(2)], upto: 4, groups: null }));
    expect(now.cases.map((one) => one.state)).toEqual(["waiting", "done", "waiting"]);
    expect([now.done, now.upto, now.groups]).toEqual([1, 4, []]);
    expect(now.cases[0]).toBe(waiting[0]);
  });

  it("keeps its cases where nothing has changed, so that nothing is drawn again", () => {
    const now = merged(first, sweep({ cases: [], upto: 3, seconds_left: 9 }));
    expect(now.cases).toBe(first.cases);
    expect([now.groups, now.seconds_left]).toEqual([[], 9]);
  });

  it("starts over with a history that was replaced", () => {
    const other = sweep({ cases: [sweepCase(1)], upto: 1 });
    expect(merged(first, other)).toBe(other);
  });
});

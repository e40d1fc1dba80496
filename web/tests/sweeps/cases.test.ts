import { describe, expect, it } from "vitest";
import type { SweepGroup } from "../../src/api/types";
import {
  WHOLE_VIEW,
  axesWords,
  costWords,
  detailsOf,
  isNarrowed,
  leftWords,
  marksOf,
  progressWords,
  shownCases,
  type View,
} from "../../src/sweeps/cases";
import { contestPoints } from "../../src/sweeps/contest";
import { readView, viewQuery } from "../../src/sweeps/view-address";
import { AXES, sweepCase } from "./sweeps";

const A10 = sweepCase(1, { options: { model: "bert", gpu: "a10", margin: 0.05 }, speed: 100, cost: 1, batch: 400 });
const H100 = sweepCase(2, { options: { model: "bert", gpu: "h100", margin: 0.1 }, speed: 900, cost: 2, batch: 300 });
const GPT2 = sweepCase(3, { options: { model: "gpt2", gpu: "a10" }, speed: 50, cost: null, batch: 500 });
const UNFIT = sweepCase(4, { options: { model: "gpt2", gpu: "h100" }, state: "does_not_fit", error: "it does not fit." });
const FAILED = sweepCase(5, { options: { model: "bert", gpu: "t4" }, state: "failed", error: "the worker was lost." });
const WAITING = sweepCase(6, { options: { model: "bert", gpu: "l4" }, state: "waiting" });
const ALL = [WAITING, FAILED, UNFIT, GPT2, H100, A10];

const shown = (view: Partial<View>) => shownCases(ALL, { ...WHOLE_VIEW, ...view }).map((one) => one.number);

describe("which cases are shown", () => {
  it("is all of them in the order of the sweep", () => {
    expect(shown({})).toEqual([1, 2, 3, 4, 5, 6]);
    expect(isNarrowed(WHOLE_VIEW)).toBe(false);
  });

  it("narrows by each option that varies, and one that is not set", () => {
    expect(shown({ chosen: { model: "gpt2" } })).toEqual([3, 4]);
    expect(shown({ chosen: { model: "bert", gpu: "a10" } })).toEqual([1]);
    expect(shown({ chosen: { margin: "0.1" } })).toEqual([2]);
    expect(shown({ chosen: { margin: "null" } })).toEqual([3, 4, 5, 6]);
  });

  it("narrows to what fits, which what waits or failed does not yet", () => {
    expect(shown({ onlyFitting: true })).toEqual([1, 2, 3]);
  });

  it("searches for all words, wherever they stand", () => {
    expect(shown({ search: "  BERT  h100" })).toEqual([2]);
    expect(shown({ search: "lost" })).toEqual([5]);
    expect(shown({ search: "nothing" })).toEqual([]);
  });
});

describe("the order", () => {
  it("has the best first and what has no such number last", () => {
    expect(shown({ order: "speed" })).toEqual([2, 1, 3, 4, 5, 6]);
    expect(shown({ order: "cost" })).toEqual([1, 2, 3, 4, 5, 6]);
    expect(shown({ order: "batch" })).toEqual([3, 1, 2, 4, 5, 6]);
  });

  it("goes by the cost of the whole run where one is known", () => {
    const run = (usd: number) => ({ whole_run: { hours: 2, hours_interval: null, usd } });
    const cheap = { ...H100, ...run(1) };
    const dear = { ...A10, ...run(9) };
    expect(shownCases([dear, cheap], { ...WHOLE_VIEW, order: "cost" })).toEqual([cheap, dear]);
    expect(costWords(cheap)).toBe("2.00 h, $1.00");
    expect([costWords(H100), costWords(WAITING)]).toEqual(["$2.00", ""]);
  });
});

describe("the address", () => {
  it("brings a view back", () => {
    const view: View = { chosen: { gpu: "a10", margin: "0.1" }, onlyFitting: true, search: "bert 16", order: "cost" };
    expect(readView(viewQuery(view), AXES)).toEqual(view);
    expect(viewQuery(WHOLE_VIEW)).toBe("");
  });

  it("is read as far as the sweep has it", () => {
    expect(readView("gpu=tpu&color=red&sort=age", AXES)).toEqual(WHOLE_VIEW);
  });
});

const group = (facts: Partial<SweepGroup>): SweepGroup => ({
  model_name: "BERT base",
  sample: "128 tokens",
  case_numbers: [1, 2],
  fastest: null,
  cheapest: null,
  fastest_candidates: [],
  cheapest_candidates: [],
  front: [],
  ...facts,
});

describe("the best", () => {
  it("is marked, also where it is one of few", () => {
    const marks = marksOf([group({ fastest: 2, fastest_candidates: [2], cheapest_candidates: [2, 1], front: [2] })]);
    expect(marks.get(2)).toEqual(["fastest", "may be cheapest", "on the front"]);
    expect(marks.get(1)).toEqual(["may be cheapest"]);
  });

  it("is not marked where it may be any of many", () => {
    expect(marksOf([group({ fastest_candidates: [1, 2, 3, 4] })]).size).toBe(0);
  });

  it("is charted by speed and money, if there is something to compare", () => {
    const points = contestPoints(group({ front: [2] }), ALL);
    expect(points.map(({ number, cost, isOnFront }) => [number, cost, isOnFront])).toEqual([
      [1, 1, false],
      [2, 2, true],
    ]);
    expect(contestPoints(group({ case_numbers: [1, 3] }), ALL)).toEqual([]);
  });
});

describe("words", () => {
  it("say what varies, and what of it the words of a case leave out", () => {
    expect(axesWords(AXES)).toBe("Model: BERT base, GPT-2 · GPU: A10, H100 · Margin: 0.05, 0.1, not set");
    expect(detailsOf(A10, AXES)).toEqual(["128 tokens", "fp32, AdamW", "Margin 0.05"]);
    expect(detailsOf(GPT2, AXES)).toEqual(["128 tokens", "fp32, AdamW", "Margin not set"]);
  });

  it("say how far it is", () => {
    const sweep = { done: 12, total: 60, failed: 1, reused: 2, seconds_left: 170 };
    expect(progressWords(sweep)).toBe("12 of 60 cases, 1 failed, 2 from the history, about 3 min left");
    expect(progressWords({ done: 1, total: 1, failed: 0, reused: 0, seconds_left: 0 })).toBe("1 case");
    expect([0.2, 99, 100, 7_200].map(leftWords)).toEqual(["1 s", "99 s", "2 min", "2.00 h"]);
  });
});

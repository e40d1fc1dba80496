import { describe, expect, it } from "vitest";
import type { Contender, JobSummary } from "../src/api/types";
import { comparisonRows, incomparableWords } from "../src/logic/comparison-rows";
import { ranked } from "../src/logic/ranking";
import { link, parseRoute } from "../src/logic/route";
import { fromPosition, POSITIONS, toPosition } from "../src/logic/slider-scale";
import { askedWords, jobName, summaryWords } from "../src/logic/summary";
import { analysis, bert, changed, gpu } from "./data";

const contender = (name: string, speed: number | null, cost: number | null): Contender => ({
  gpu: name,
  gpu_name: name,
  fits: speed !== null,
  max_batch_size: null,
  max_batch_interval: null,
  samples_per_second_interval: null,
  recommended_batch_size: null,
  samples_per_second: speed,
  usd_per_million_samples: cost,
  price: null,
});

describe("ranking", () => {
  const gpus = [
    contender("small", null, null),
    contender("dear", 900, 3),
    contender("free", 500, null),
    contender("cheap", 100, 1),
  ];
  it("puts the fastest first and what does not fit last", () => {
    expect(ranked(gpus, "speed").map((one) => one.gpu)).toEqual(["dear", "free", "cheap", "small"]);
  });
  it("puts the cheapest first, then what has no price", () => {
    expect(ranked(gpus, "cost").map((one) => one.gpu)).toEqual(["cheap", "dear", "free", "small"]);
  });
});

describe("results side by side", () => {
  it("marks the best of a row", () => {
    const rows = comparisonRows([analysis, changed({ max_batch_size: 300, price: null })]);
    const row = (name: string) => rows.find((one) => one.name === name)!;
    expect(row("Maximum batch")).toMatchObject({ best: 1, cells: [{ text: "266" }, { text: "300", share: 1 }] });
    expect(row("$ per million samples").cells.map((cell) => cell.text)).toEqual(["$1.35", "–"]);
    expect(row("$ per million samples").best).toBeNull();
  });

  it("ranks nothing that is counted in samples of different kinds, and says so", () => {
    const images = changed({ sample: "224x224 pixels", max_batch_size: 999, price: analysis.price });
    const faster = { ...images, trials: images.trials.map((trial) => ({ ...trial, samples_per_second: trial.samples_per_second && 9 * trial.samples_per_second })) };
    const rows = comparisonRows([analysis, faster]);
    for (const name of ["Maximum batch", "Samples per second there", "$ per million samples"]) {
      const row = rows.find((one) => one.name === name)!;
      expect(row.best).toBeNull();
      expect(row.cells.map((cell) => cell.share)).toEqual([null, null]);
    }
    expect(incomparableWords([analysis, faster])).toBe(
      "Samples differ (128 tokens; 224x224 pixels), so batches, samples per second and cost per sample cannot be compared.",
    );
    expect(incomparableWords([analysis, analysis])).toBeNull();
    expect(comparisonRows([analysis, { ...faster, sample: analysis.sample }]).find((one) => one.name === "Samples per second there")!.best).toBe(1);
  });
});

describe("addresses", () => {
  it("survive a reload", () => {
    for (const [address, route] of [
      [link.analyze(), { page: "analyze" }],
      [link.gpus(), { page: "gpus" }],
      [link.history(), { page: "history" }],
      [link.job("abc"), { page: "job", id: "abc", part: null }],
      [link.job("abc", "a10"), { page: "job", id: "abc", part: "a10" }],
      [link.compare(["a", "b"]), { page: "compare", ids: ["a", "b"] }],
      [link.compare(), { page: "compare", ids: [] }],
      ["", { page: "analyze" }],
      ["#/nowhere", { page: "unknown" }],
    ] as const) {
      expect(parseRoute(address)).toEqual(route);
    }
  });
});

describe("a job in a list", () => {
  const job = {
    id: "abc",
    state: "done",
    model_name: "google-bert/bert-base-uncased",
    target: "a10",
    kind: "analysis",
    recipe_words: "bf16, AdamW",
    sample_words: "512 tokens",
    current_batch_size: 16,
    headline: {
      gpu_name: "NVIDIA A10",
      source: "predicted",
      max_batch_size: 266,
      recommended_batch_size: 244,
      speedup: 1.54,
      cost_savings_annual: null,
      fastest: null,
      cheapest: null,
    },
  } as JobSummary;
  it("has a name and an outcome in words", () => {
    expect(jobName(job, [bert], [gpu("a10", 22)])).toBe("BERT base on A10");
    expect(askedWords(job)).toBe("bf16, AdamW · 512 tokens · batch 16 today");
    expect(summaryWords(job)).toBe("use 244 · maximum 266 · 1.54x · predicted");
  });
});

describe("a slider", () => {
  it("reaches both ends and comes back to where it was", () => {
    const range = [0.1, 1000] as const;
    expect(fromPosition(0, range, false)).toBe(0.1);
    expect(fromPosition(POSITIONS, range, false)).toBe(1000);
    expect(toPosition(5000, range)).toBe(POSITIONS);
    expect(fromPosition(0, [1, 500], true)).toBe(1);
  });
});

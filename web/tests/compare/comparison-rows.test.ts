import { describe, expect, it } from "vitest";
import type { Analysis } from "../../src/api/types";
import { comparisonRows, incomparableWords } from "../../src/compare/comparison-rows";
import { analysis, changed } from "../data";

const rowsOf = (...analyses: Analysis[]) => comparisonRows(analyses.map((one) => ({ analysis: one, recipe: "fp32, AdamW" })));

describe("results side by side", () => {
  it("marks the best of a row", () => {
    const rows = rowsOf(analysis, changed({ max_batch_size: 300, price: null }));
    const row = (name: string) => rows.find((one) => one.name === name)!;
    expect(row("Maximum batch")).toMatchObject({ best: 1, cells: [{ text: "266" }, { text: "300", share: 1 }] });
    expect(row("$ per million samples").cells.map((cell) => cell.text)).toEqual(["$1.35", "–"]);
    expect(row("$ per million samples").best).toBeNull();
    expect(row("Recipe").cells.map((cell) => cell.text)).toEqual(["fp32, AdamW", "fp32, AdamW"]);
  });

  it("ranks nothing that is counted in samples of different kinds, and says so", () => {
    const images = changed({ sample: "224x224 pixels", max_batch_size: 999, price: analysis.price });
    const faster = { ...images, trials: images.trials.map((trial) => ({ ...trial, samples_per_second: trial.samples_per_second && 9 * trial.samples_per_second })) };
    const rows = rowsOf(analysis, faster);
    for (const name of ["Maximum batch", "Samples per second", "$ per million samples"]) {
      const row = rows.find((one) => one.name === name)!;
      expect(row.best).toBeNull();
      expect(row.cells.map((cell) => cell.share)).toEqual([null, null]);
    }
    expect(incomparableWords([analysis, faster])).toBe(
      "Samples differ (128 tokens; 224x224 pixels), so batches, speed and cost per sample cannot be compared.",
    );
    expect(incomparableWords([analysis, analysis])).toBeNull();
    expect(rowsOf(analysis, { ...faster, sample: analysis.sample }).find((one) => one.name === "Samples per second")!.best).toBe(1);
  });
});

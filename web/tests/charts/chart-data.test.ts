import { describe, expect, it } from "vitest";
import {
  PARTS,
  answerColumns,
  batchTicks,
  fastBand,
  isFailed,
  lastTrials,
  memoryColumns,
  partsShown,
  roomOf,
  roundTicks,
  stacked,
  thinned,
  throughputPoints,
} from "../../src/charts/chart-data";
import { analysis, changed } from "../data";

describe("chart data", () => {
  it("has one trial for each batch size, the one that says most", () => {
    const last = lastTrials(analysis.trials);
    const sizes = last.map((trial) => trial.batch_size);
    expect(sizes).toEqual([...new Set(sizes)].sort((a, b) => a - b));
    expect(last.find((trial) => trial.batch_size === 266)?.breakdown).not.toBeNull();
    expect(
      lastTrials([...analysis.trials].reverse()).find((trial) => trial.batch_size === 266)?.breakdown,
    ).not.toBeNull();
  });

  it("stacks parts that add up to what the device holds", () => {
    for (const column of memoryColumns(analysis.trials, roomOf(analysis)).filter((one) => !isFailed(one))) {
      const sum = PARTS.reduce((total, part) => total + (column[part.name] ?? 0), 0) + (column.whole ?? 0);
      expect(sum).toBeCloseTo(column.total, 6);
    }
  });

  it("draws the parts of a column from the bottom to its top without a gap", () => {
    for (const column of answerColumns(analysis).filter((one) => one.failed === undefined)) {
      const layers = stacked(column);
      expect(layers[0]?.from).toBe(0);
      layers.slice(1).forEach((layer, index) => expect(layer.from).toBe(layers[index]!.to));
      expect(layers.at(-1)?.to).toBeCloseTo(column.total, 6);
      expect(layers.some(({ part }) => part.name === "other_processes_bytes")).toBe(false);
    }
  });

  it("shows in an answer what is broken down, and the first size that fails", () => {
    const columns = answerColumns(analysis);
    expect(columns.at(-1)).toMatchObject({ batch: 267 });
    expect(columns.at(-1)?.failed).toBeGreaterThan(0);
    expect(columns.every((column) => column.whole === undefined)).toBe(true);
  });

  it("leaves out parts that nobody has", () => {
    expect(partsShown(answerColumns(analysis)).map((part) => part.name)).not.toContain("other_processes_bytes");
  });

  it("draws what does not fit above the limit, and what fits below it", () => {
    const room = roomOf(analysis);
    expect(room.limit).toBe(analysis.gpu_total_gb);
    const columns = memoryColumns(analysis.trials, room);
    expect(columns.some(isFailed)).toBe(true);
    for (const column of columns) {
      if (isFailed(column)) expect(column.total).toBeGreaterThan(room.limit);
      else expect(column.total).toBeLessThanOrEqual(room.limit + 1e-6);
    }
    const far = analysis.trials.map((trial) => (trial.fits ? trial : { ...trial, failure: { kind: "memory" as const, message: "", requested_bytes: 900 * 2 ** 30, free_bytes: 0 } }));
    expect(Math.max(...memoryColumns(far, room).map((column) => column.total))).toBeLessThan(1.25 * room.limit);
    expect(memoryColumns(far, room).find(isFailed)!.failed).toBeCloseTo(room.limit + 900, 3);
  });

  it("does not blame the memory for a launch limit", () => {
    const limited = analysis.trials.map((trial) => (trial.fits ? trial : { ...trial, failure: { kind: "limit" as const, message: "", requested_bytes: null, free_bytes: null } }));
    const column = memoryColumns(limited, roomOf(analysis)).find(isFailed)!;
    expect(column.failed).toBeUndefined();
    expect(column.refused).toBeLessThanOrEqual(analysis.gpu_total_gb + 1e-6);
  });

  it("counts under a cap only what the cap counts", () => {
    const capped = changed({ info: { ...analysis.info, capped: true }, gpu_total_gb: analysis.capacity_bytes / 2 ** 30 });
    for (const column of answerColumns(capped).filter((one) => !isFailed(one))) {
      expect(column.context_bytes).toBeUndefined();
      expect(column.total).toBeLessThanOrEqual(capped.gpu_total_gb + 1e-6);
    }
  });

  it("has a point for each timed size, with its interval", () => {
    const points = throughputPoints(analysis.trials);
    expect(points.map((point) => point.batch)).toEqual([8, 16, 32, 64, 128, 244, 255, 266]);
    for (const { speed, between } of points) expect(between![0] < speed && speed < between![1]).toBe(true);
  });

  it("counts text in tokens, intervals too", () => {
    const trials = analysis.trials.map((trial) => ({ ...trial, tokens_per_sample: 128, tokens_per_second: 128 * (trial.samples_per_second ?? 0) }));
    const [inTokens, inSamples] = [throughputPoints(trials)[0]!, throughputPoints(analysis.trials)[0]!];
    expect([inSamples.unit, inTokens.unit]).toEqual(["samples", "tokens"]);
    expect(inTokens.speed).toBe(128 * inSamples.speed);
    expect(inTokens.between).toEqual(inSamples.between!.map((end) => 128 * end));
  });

  it("bands the best 5 %, thrashing sizes left out", () => {
    const points = [10, 100, 120].map((speed, index) => ({ batch: 2 ** index, speed, unit: "samples" as const, between: null }));
    expect(fastBand(points)).toEqual([114, 120]);
    expect(fastBand(points, [4])).toEqual([95, 100]);
    expect(fastBand([])).toBeNull();
  });

  it("thins out many columns and keeps the ends", () => {
    const many = Array.from({ length: 200 }, (_, index) => index);
    expect(thinned(many, 24)).toHaveLength(24);
    expect(thinned(many, 24).at(0)).toBe(0);
    expect(thinned(many, 24).at(-1)).toBe(199);
    expect(thinned([1, 2], 24)).toEqual([1, 2]);
  });

  it("has ticks that read well", () => {
    expect(batchTicks([8, 16, 244, 266])).toEqual([8, 16, 32, 64, 128, 256]);
    expect(batchTicks([3])).toEqual([3]);
    expect(batchTicks([])).toEqual([]);
    expect(roundTicks(23.8)).toEqual([0, 5, 10, 15, 20]);
    expect(roundTicks(418)).toEqual([0, 100, 200, 300, 400]);
  });
});

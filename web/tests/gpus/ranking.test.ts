import { describe, expect, it } from "vitest";
import type { Contender } from "../../src/api/types";
import { ranked, shortlist } from "../../src/gpus/ranking";

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
  step_seconds: null,
  tokens_per_batch: null,
  tokens_per_second: null,
  whole_run: null,
  memory_only: false,
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

describe("the GPUs to show first", () => {
  const price = { usd_per_hour: 1, provider: "as given", as_of: null, note: "" };
  const many = Array.from({ length: 40 }, (_, rank) => ({
    ...contender(`gpu${rank}`, rank < 38 ? 100 - rank : null, null),
    price: rank === 30 || rank === 39 ? price : null,
  }));

  it("are all of a few", () => {
    expect(shortlist(many.slice(0, 24))).toHaveLength(24);
  });

  it("are the best and those with a price, of very many", () => {
    const shown = shortlist(many).map((gpu) => gpu.gpu);
    expect(shown).toEqual([...many.slice(0, 12).map((gpu) => gpu.gpu), "gpu30"]);
  });
});

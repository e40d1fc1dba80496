import { describe, expect, it } from "vitest";
import type { Comparison } from "../../src/api/types";
import { comparisonDetail, comparisonHeadline } from "../../src/gpus/headline";

describe("the headline of a comparison", () => {
  it("names the fastest and the cheapest GPU", () => {
    const gpus = [
      { gpu: "h100", gpu_name: "NVIDIA H100 80 GB", fits: true },
      { gpu: "l4", gpu_name: "NVIDIA L4", fits: true },
    ];
    const comparison = (fastest: string | null, cheapest: string | null) =>
      comparisonHeadline({ gpus, fastest, cheapest } as unknown as Comparison).lead;
    expect(comparison("h100", "l4")).toBe("Fastest on the H100 80 GB, cheapest on the L4");
    expect(comparison("l4", "l4")).toBe("The L4 is both the fastest and the cheapest");
    expect(comparison("h100", null)).toBe("Fastest on the H100 80 GB");
    expect(comparison(null, null)).toBe("No batch leaves the margin free on any GPU");
    const nowhere = { gpus: gpus.map((gpu) => ({ ...gpu, fits: false })), fastest: null, cheapest: null };
    expect(comparisonHeadline(nowhere as unknown as Comparison).lead).toBe("It does not fit on any of these GPUs");
  });

  const gpus = ["a10", "b200"].map((gpu) => ({ gpu, gpu_name: `NVIDIA ${gpu.toUpperCase()}`, fits: true }));

  it("is followed by what is uncertain and which GPUs have no price", () => {
    const found = { gpus, fastest_candidates: ["b200", "a10"], cheapest_candidates: ["a10"], unpriced: ["b200"] };
    const detail = comparisonDetail(found as unknown as Comparison);
    expect(detail).toContain("within the uncertainty");
    expect(detail).toContain("no price is known: B200");
  });

  it("is followed by no more where all is certain", () => {
    const found = { gpus, fastest_candidates: ["b200"], cheapest_candidates: ["a10"], unpriced: [] };
    expect(comparisonDetail(found as unknown as Comparison)).toMatch(/Nothing was run on them\.$/);
  });
});

import { describe, expect, it } from "vitest";
import type { Comparison } from "../src/api/types";
import { analysisDetail, analysisHeadline, comparisonDetail, comparisonHeadline, contestWords, doesNotFitHeadline } from "../src/logic/headline";
import { analysis, changed } from "./data";

describe("the headline", () => {
  it("names the batch, the speedup and what is left", () => {
    expect(analysisHeadline(analysis)).toEqual({
      sentence: "Batch 244 trains 1.54x faster than today and leaves 1.8 GiB free",
      tone: "good",
    });
  });

  it("says so when nothing is faster", () => {
    expect(analysisHeadline(changed({ speedup: 1.04 })).sentence).toBe("Batch 244 is no faster than today's 16");
    expect(analysisDetail(changed({ speedup: 1.04 }))).toContain("not what slows this training down");
  });

  it("says so when today's batch is already right", () => {
    const same = changed({ speedup: 1, current_batch_size: 244 });
    expect(analysisHeadline(same).sentence).toBe("Batch 244 is already right: no larger batch trains faster");
  });

  it("says so when today's batch does not fit", () => {
    const large = changed({ speedup: null, current_batch_size: 2000, current_waste_percent: null });
    expect(analysisHeadline(large).sentence).toBe(
      "Today's batch 2,000 does not fit; batch 244 trains and leaves 1.8 GiB free",
    );
    expect(analysisDetail(large)).not.toContain("unused");
  });

  it("says so when no batch keeps the margin", () => {
    const tight = changed({ recommended_batch_size: null, speedup: null });
    expect(analysisHeadline(tight)).toEqual({
      sentence: "Batch 266 is the most that fits, but no batch keeps 5 % of the memory free",
      tone: "bad",
    });
  });

  it("never passes a prediction for a measurement", () => {
    expect(analysisDetail(analysis)).toContain("Predicted for the NVIDIA A10; nothing ran on one.");
    expect(analysisDetail(changed({ source: "measured" }))).toContain("Measured on the NVIDIA A10.");
  });

  it("says that nothing fits and leaves it to the server's sentence by how much", () => {
    expect(doesNotFitHeadline("BERT base").sentence).toBe("BERT base does not fit, not even one sample at a time");
  });

  it("names the fastest and the cheapest GPU", () => {
    const gpus = [
      { gpu: "h100", gpu_name: "NVIDIA H100 80 GB", fits: true },
      { gpu: "l4", gpu_name: "NVIDIA L4", fits: true },
    ];
    const comparison = (fastest: string | null, cheapest: string | null) =>
      comparisonHeadline({ gpus, fastest, cheapest } as unknown as Comparison).sentence;
    expect(comparison("h100", "l4")).toBe("Fastest on the H100 80 GB, cheapest on the L4");
    expect(comparison("l4", "l4")).toBe("The L4 is both the fastest and the cheapest");
    expect(comparison("h100", null)).toBe("Fastest on the H100 80 GB");
    expect(comparison(null, null)).toBe("No batch keeps the margin on any GPU");
    const nowhere = { gpus: gpus.map((gpu) => ({ ...gpu, fits: false })), fastest: null, cheapest: null };
    expect(comparisonHeadline(nowhere as unknown as Comparison).sentence).toBe("It fits no GPU of the catalog");
  });

  it("leaves open what the uncertainty leaves open", () => {
    const named = (id: string) => id.toUpperCase();
    const contest = (fastest: string[], cheapest: string[]) =>
      contestWords(
        { fastest: null, cheapest: null, fastest_candidates: fastest, cheapest_candidates: cheapest },
        named,
      );
    expect(contest(["a", "b"], ["b", "c", "d"])).toBe("Fastest on the A or B, cheapest on the B, C or D");
    expect(contest(["a", "b", "c", "d"], [])).toBe("Fastest on the A, B or one of 2 others");
    expect(contest([], [])).toBeNull();
  });
});

describe("behind a comparison", () => {
  const gpus = ["a10", "b200"].map((gpu) => ({ gpu, gpu_name: `NVIDIA ${gpu.toUpperCase()}`, fits: true }));

  it("stands what is uncertain and which GPUs have no price", () => {
    const found = { gpus, fastest_candidates: ["b200", "a10"], cheapest_candidates: ["a10"], unpriced: ["b200"] };
    const detail = comparisonDetail(found as unknown as Comparison);
    expect(detail).toContain("within the uncertainty of each other");
    expect(detail).toContain("No price is known for B200");
  });

  it("stands no more where all is certain", () => {
    const found = { gpus, fastest_candidates: ["b200"], cheapest_candidates: ["a10"], unpriced: [] };
    expect(comparisonDetail(found as unknown as Comparison)).toMatch(/Nothing ran on them\.$/);
  });
});

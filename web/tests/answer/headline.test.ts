import { describe, expect, it } from "vitest";
import { analysisDetail, analysisHeadline } from "../../src/answer/headline";
import { sentenceOf } from "../../src/result/headline";
import { analysis, changed } from "../data";

const said = (changes: Parameters<typeof changed>[0] = {}) => sentenceOf(analysisHeadline(changed(changes)));

describe("the headline", () => {
  it("names the batch, the speedup and what is left", () => {
    expect(said()).toBe("Batch 244 trains 1.54x faster than today and leaves 1.8 GiB free");
    expect(analysisHeadline(analysis)).toMatchObject({ strong: "1.54x faster", tone: "good" });
  });

  it("says so when nothing is faster", () => {
    expect(said({ speedup: 1.04 })).toBe("Batch 244 is no faster than today's 16");
    expect(analysisDetail(changed({ speedup: 1.04 }))).toContain("not what slows this training down");
  });

  it("says so when today's batch is already right", () => {
    expect(said({ speedup: 1, current_batch_size: 244 })).toBe("Batch 244 is already right: no larger batch trains faster");
  });

  it("says so when today's batch does not fit", () => {
    const large = { speedup: null, current_batch_size: 2000, current_waste_percent: null };
    expect(said(large)).toBe("Today's batch 2,000 does not fit; batch 244 trains and leaves 1.8 GiB free");
    expect(analysisDetail(changed(large))).not.toContain("unused");
  });

  it("says so when no batch keeps the margin", () => {
    expect(analysisHeadline(changed({ recommended_batch_size: null, speedup: null }))).toEqual({
      lead: "Batch 266 is the largest that fits, but no batch leaves 5 % of the memory free",
      tone: "bad",
    });
  });

  it("claims nothing of speed or margins where only memory is predicted", () => {
    const info = { ...analysis.info, memory_only: true };
    expect(said({ info, recommended_batch_size: null, speedup: null })).toBe(
      "Batch 266 is the largest that fits; only memory is predicted for this GPU",
    );
  });

  it("never passes a prediction for a measurement", () => {
    expect(analysisDetail(analysis)).toContain("Predicted for the NVIDIA A10; nothing was run on one.");
    expect(analysisDetail(changed({ source: "measured" }))).toContain("Measured on the NVIDIA A10.");
  });
});

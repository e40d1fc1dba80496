import { describe, expect, it } from "vitest";
import { currentTrial, learningRateHint, maximumTrial, memoryUse, memoryWords, otherLoopWords, priceWords, speedupRange, whySmaller } from "../../src/answer/analysis";
import { analysisDetail, analysisHeadline } from "../../src/answer/headline";
import { GIB } from "../../src/shared/format";
import { analysis, changed } from "../data";

describe("the memory of a GPU", () => {
  it("is one: what is used and what is left add up to it, and both are of what the GPU holds", () => {
    for (const trial of [currentTrial(analysis)!, maximumTrial(analysis)!]) {
      const use = memoryUse(analysis, trial);
      expect(use.usedBytes).toBe(trial.device_bytes);
      expect(use.usedBytes + use.leftBytes).toBe(analysis.gpu_total_gb * GIB);
      expect(use.usedPercent).toBeCloseTo((100 * trial.device_bytes) / (analysis.gpu_total_gb * GIB), 9);
    }
    expect(memoryWords(analysis)).toBe("Memory in use on the GPU at the peak of a step, out of 22.1 GiB.");
  });

  it("counts what is reserved under a cap, which does not count the context", () => {
    const capped = changed({ info: { ...analysis.info, capped: true }, gpu_total_gb: 21.7 });
    const trial = currentTrial(capped)!;
    expect(memoryUse(capped, trial).usedBytes).toBe(trial.peak_reserved_bytes);
    expect(memoryWords(capped)).toContain("reserved");
  });
});

describe("another batch", () => {
  it("wants a higher learning rate only if it is larger", () => {
    expect(learningRateHint(16, 256)).toContain("higher learning rate");
    expect(learningRateHint(16, 4)).toContain("lower learning rate");
    expect(learningRateHint(16, 4)).not.toContain("higher");
    expect(learningRateHint(16, 16)).toBeNull();
    expect(learningRateHint(16, 20)).toBeNull();
  });

  it("is not smaller than today's without a reason", () => {
    const smaller = changed({ current_batch_size: 266, recommended_batch_size: 244, smaller_because: "uncertain", speedup: 1 });
    expect(whySmaller(smaller)).toBe("Today's batch 266 is so close to the predicted maximum that it may not fit.");
    expect(analysisDetail(smaller)).toContain(whySmaller(smaller)!);
    expect(analysisHeadline(smaller).lead).toBe("Use batch 244 instead of today's 266");
    expect(whySmaller(analysis)).toBeNull();
  });
});

describe("the speedup", () => {
  it("comes with what the true one should lie between", () => {
    expect(speedupRange({ speedup_interval: [0.85, 2.23] })).toEqual([0.85, 2.23]);
    expect(speedupRange({ speedup_interval: [1, 1] })).toBeNull();
    expect(speedupRange({ speedup_interval: null })).toBeNull();
    const known = changed({ speedup_interval: [1.1, 2.2] });
    expect(analysisDetail(known)).toContain("Expect a speedup between 1.10x and 2.20x.");
  });
});

describe("the price", () => {
  it("says from whom and when it is", () => {
    const price = { usd_per_hour: 1.29, provider: "Lambda", as_of: "2026-10-01", note: "" };
    expect(priceWords(changed({ price }))).toBe("$1.29/h (Lambda, 2026-10-01)");
    expect(priceWords(changed({ price: { ...price, provider: "as given", as_of: null } }))).toBe("$1.29/h (as given)");
    expect(priceWords(changed({ price: null }))).toBeNull();
  });
});

describe("the other loop", () => {
  it("is shown as code", () => {
    expect(otherLoopWords({ keeps_outputs: true, max_batch_size: 58 })).toContain("outputs = model(**batch)");
    expect(otherLoopWords({ keeps_outputs: false, max_batch_size: 72 })).toContain("keeps only the loss");
  });
});

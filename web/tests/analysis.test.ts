import { describe, expect, it } from "vitest";
import { currentTrial, learningRateHint, maximumTrial, memoryUse, memoryWords, speedupBetween, whySmaller } from "../src/logic/analysis";
import { analysisDetail, analysisHeadline } from "../src/logic/headline";
import { GIB } from "../src/logic/format";
import { analysis, changed } from "./data";

describe("the memory of a GPU", () => {
  it("is one: what is used and what is left add up to it, and both are of what the GPU holds", () => {
    for (const trial of [currentTrial(analysis)!, maximumTrial(analysis)!]) {
      const use = memoryUse(analysis, trial);
      expect(use.usedBytes).toBe(trial.device_bytes);
      expect(use.usedBytes + use.leftBytes).toBe(analysis.gpu_total_gb * GIB);
      expect(use.usedPercent).toBeCloseTo((100 * trial.device_bytes) / (analysis.gpu_total_gb * GIB), 9);
    }
    expect(memoryWords(analysis)).toBe("All that the GPU holds at the peak of a step, of its 22.1 GiB.");
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
    expect(whySmaller(smaller)).toBe("Today's batch 266 is so near the predicted maximum that it may not fit.");
    expect(analysisDetail(smaller)).toContain(whySmaller(smaller)!);
    expect(analysisHeadline(smaller).sentence).toBe("Batch 244 is the one to use, not today's 266");
    expect(whySmaller(analysis)).toBeNull();
  });
});

describe("the speedup", () => {
  it("comes with what the true one should lie between", () => {
    expect(speedupBetween({ speedup_interval: [0.85, 2.23] })).toBe("0.85x to 2.23x");
    expect(speedupBetween({ speedup_interval: [1, 1] })).toBeNull();
    expect(speedupBetween({ speedup_interval: null })).toBeNull();
    const known = changed({ speedup_interval: [1.1, 2.2] });
    expect(analysisDetail(known)).toContain("should lie between 1.10x and 2.20x");
  });
});

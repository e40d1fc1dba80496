import { describe, expect, it } from "vitest";
import type { JobSummary } from "../../src/api/types";
import { contestWords } from "../../src/result/contest";
import { askedWords, isComparable, jobName, summaryWords } from "../../src/result/summary";
import { bert, gpu, job } from "../data";

const headline = {
  gpu_name: "NVIDIA A10",
  source: "predicted",
  max_batch_size: 266,
  recommended_batch_size: 244,
  speedup: 1.54,
  cost_savings_annual: null,
  fastest: null,
  cheapest: null,
} as NonNullable<JobSummary["headline"]>;

describe("a job in a list", () => {
  const listed = job({
    model_name: "google-bert/bert-base-uncased",
    recipe_words: "bf16, AdamW",
    sample_words: "512 tokens",
    headline,
  });

  it("has a name and an outcome in words", () => {
    expect(jobName(listed, [bert], [gpu("a10", 22)])).toBe("BERT base on A10");
    expect(askedWords(listed)).toBe("bf16, AdamW · 512 tokens · batch 16 today");
    expect(summaryWords(listed)).toBe("use 244 · maximum 266 · 1.54x · predicted");
  });

  it("is told apart where it is advice, and not compared", () => {
    const nothing = { ...headline, max_batch_size: null, recommended_batch_size: null, speedup: null };
    const advice = job({ kind: "advice", headline: nothing });
    expect(summaryWords(advice)).toBe("Nothing is worth changing · predicted");
    const found = { ...nothing, recommended_recipe: "bf16, fused AdamW", recommended_batch_size: 316, speedup: 3.02 };
    expect(summaryWords({ ...advice, headline: found })).toBe("use 316 · 3.02x · predicted");
    expect(askedWords({ ...advice, headline: found })).toBe("fp32, AdamW → bf16, fused AdamW · batch 16 today");
    expect([isComparable(advice), isComparable(listed)]).toEqual([false, true]);
  });
});

describe("the fastest and the cheapest GPU", () => {
  it("stay open where the uncertainty leaves them open", () => {
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

import { describe, expect, it } from "vitest";
import { rateOf, rateUnit, rateWords } from "../../src/shared/rate";

const TEXT = { samples_per_second: 23.1, tokens_per_second: 11_827 };
const IMAGES = { samples_per_second: 0.103, tokens_per_second: null };

describe("throughput", () => {
  it("is in tokens for text and in samples for the rest", () => {
    expect([TEXT, IMAGES].map(rateOf)).toEqual([11_827, 0.103]);
    expect([rateUnit([null, TEXT]), rateUnit([IMAGES])]).toEqual(["tokens", "samples"]);
  });

  it("is given in both units where there is room", () => {
    expect(rateWords(TEXT)).toBe("11,827 tokens per second (23.1 samples)");
    expect(rateWords(IMAGES)).toBe("0.103 samples per second");
    expect(rateWords(null)).toBe("Not timed");
  });
});

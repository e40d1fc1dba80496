import { describe, expect, it } from "vitest";
import { LAB_SPENDS_PER_YEAR, NO_PRICE, labThatSpends47k, savings, whyNoSavings } from "../../src/answer/savings";
import { analysis, changed } from "../data";

const usage = { pricePerHour: 1.29, hoursPerRun: 2, runsPerYear: 100, people: 1 };

describe("savings", () => {
  it("are what the service says for the same numbers", () => {
    const saved = savings(usage, analysis.speedup!);
    expect(saved.perRun).toBeCloseTo(analysis.cost_savings_per_run!, 10);
    expect(saved.perYear).toBeCloseTo(analysis.cost_savings_annual!, 10);
  });

  it("grow with people", () => {
    expect(savings({ ...usage, people: 5 }, 2)).toEqual({ perRun: 1.29, perYear: 645, spentPerYear: 1290 });
  });

  it("are nothing without a speedup", () => {
    expect(savings(usage, 1).perYear).toBe(0);
  });

  it("say why they are not known", () => {
    expect(whyNoSavings(analysis, usage)).toBeNull();
    expect(whyNoSavings(changed({ speedup: 1.04 }), usage)).toBe("No faster, so nothing is saved");
    expect(whyNoSavings(changed({ speedup: null }), usage)).toContain("not timed");
    expect(whyNoSavings(analysis, { ...usage, pricePerHour: NO_PRICE })).toContain("No price");
  });

  it("of the lab start from $47,000 a year at any price", () => {
    for (const price of [0.49, 1.29, 4.59]) {
      expect(savings(labThatSpends47k(price), 2).spentPerYear).toBeCloseTo(LAB_SPENDS_PER_YEAR, 6);
      expect(savings(labThatSpends47k(price), 2).perYear).toBeCloseTo(LAB_SPENDS_PER_YEAR / 2, 6);
    }
  });
});

import { describe, expect, it } from "vitest";
import { fromPosition, POSITIONS, toPosition } from "../../src/ui/slider-scale";

describe("a slider", () => {
  it("reaches both ends and comes back to where it was", () => {
    const range = [0.1, 1000] as const;
    expect(fromPosition(0, range, false)).toBe(0.1);
    expect(fromPosition(POSITIONS, range, false)).toBe(1000);
    expect(toPosition(5000, range)).toBe(POSITIONS);
    expect(fromPosition(0, [1, 500], true)).toBe(1);
  });
});

import { describe, expect, it } from "vitest";
import { capitalized, either } from "../../src/shared/text";

describe("words on the page", () => {
  it("begin with a capital, but for names", () => {
    const begun = ["does not fit.", "today's recipe", "bf16 autocast", "torch.compile", "channels_last", "8-bit AdamW"];
    expect(begun.map(capitalized)).toEqual([
      "Does not fit.",
      "Today's recipe",
      "bf16 autocast",
      "torch.compile",
      "channels_last",
      "8-bit AdamW",
    ]);
  });

  it("list what may be chosen", () => {
    expect([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(either)).toEqual(["", "a", "a or b", "a, b or c"]);
  });
});

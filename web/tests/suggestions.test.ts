import { describe, expect, it } from "vitest";
import type { Suggestion } from "../src/api/types";
import { changedBody, hasRecipeAlone, reachWords } from "../src/logic/suggestions";
import { question } from "./data";

const suggestion = (changes: Partial<Suggestion>): Suggestion => ({
  label: "",
  change: {},
  recipe: "",
  gpu_name: "",
  without_cap: false,
  max_batch_size: 1200,
  device_bytes: 20 * 2 ** 30,
  total_bytes: 22.06 * 2 ** 30,
  ...changes,
});

describe("what fits instead", () => {
  it("is the same question with the change made", () => {
    const change = { gpu: "h200", memory_gib: null, precision: "bf16" };
    expect(changedBody(question, suggestion({ change }))).toMatchObject({
      model_name: "bert",
      batch_size: 16,
      optimizer: "adamw",
      ...change,
    });
  });

  it("says how far it carries, and of which memory", () => {
    expect(reachWords(suggestion({}))).toBe("Up to batch 1,200, which takes 20.0 GiB of 22.1 GiB");
  });

  it("leads to advice only where a change of the recipe alone helps", () => {
    expect(hasRecipeAlone([suggestion({ recipe: "LoRA", gpu_name: "NVIDIA H200" }), suggestion({ gpu_name: "x" })])).toBe(false);
    expect(hasRecipeAlone([suggestion({ recipe: "LoRA" })])).toBe(true);
    expect(hasRecipeAlone([])).toBe(false);
  });
});

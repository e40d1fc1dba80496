import { describe, expect, it } from "vitest";
import { askedValues, changed } from "../../src/result/asked";
import { plannedSource } from "../../src/result/summary";
import { job } from "../data";

describe("the question of a job", () => {
  it("is asked again as it was", () => {
    const options = { model_name: "bert", gpu: "a10", precision: "bf16" };
    expect(askedValues(job({ options }))).toEqual(options);
    expect(askedValues(job({ options: null }))).toBeNull();
  });

  it("is asked of one GPU, or of one length", () => {
    const all = job({ kind: "comparison", options: { model_name: "bert", all_gpus: true, precision: "bf16" } });
    expect(askedValues(all, "h100")).toEqual({ model_name: "bert", precision: "bf16", gpu: "h100" });
    const lengths = job({ kind: "sweep", options: { model_name: "bert", gpu: "a10", seq_lens: [64, 128] } });
    expect(askedValues(lengths, "64")).toEqual({ model_name: "bert", gpu: "a10", seq_len: 64 });
  });

  it("is asked with a change; null leaves an option out", () => {
    const asked = { model_name: "bert", gpu: "a10", memory_gib: 1 };
    expect(changed(asked, { gpu: "h200", memory_gib: null, lora: 16 })).toEqual({ model_name: "bert", gpu: "h200", lora: 16 });
  });

  it("says whether it is to be measured or predicted", () => {
    expect(plannedSource(job({}))).toBe("predicted");
    expect(plannedSource(job({ kind: "comparison", options: {} }))).toBe("predicted");
    expect(plannedSource(job({ options: { device: "cuda" } }))).toBe("measured");
  });
});

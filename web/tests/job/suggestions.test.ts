import { describe, expect, it } from "vitest";
import type { Job } from "../../src/api/types";
import { outcome } from "../../src/job/outcome";
import { hasRecipeAlone, reachWords } from "../../src/job/suggestions";
import { advice, analysis, job, options } from "../data";

describe("what to try instead", () => {
  it("says how far it carries, of what was checked", () => {
    const checked = { max_batch_size: 1200, device_bytes: 20 * 2 ** 30, total_bytes: 22.06 * 2 ** 30 };
    expect(reachWords({ label: "", change: {}, ...checked })).toBe("Up to batch 1,200, which takes 20.0 GiB of 22.1 GiB");
    expect(reachWords({ label: "", change: {}, ...checked, host_bytes: 6 * 2 ** 30 })).toBe(
      "Up to batch 1,200, which takes 20.0 GiB of 22.1 GiB and 6.0 GiB of the host's memory",
    );
    expect(reachWords({ label: "", change: {}, ...checked, missed_margin: 0.05 })).toBe(
      "Up to batch 1,200, which takes 20.0 GiB of 22.1 GiB; less than the margin of 5 % stays free",
    );
    expect(reachWords({ label: "no revision", change: { revision: null } })).toBeNull();
  });

  it("leads to advice only where a change of the recipe alone helps", () => {
    const lora = { label: "LoRA", change: { lora: 16 } };
    expect(hasRecipeAlone([{ label: "", change: { lora: 16, gpu: "h200" } }, { label: "", change: { memory_gib: null } }], options)).toBe(false);
    expect(hasRecipeAlone([lora], options)).toBe(true);
    expect(hasRecipeAlone([], options)).toBe(false);
  });
});

describe("how a job ended", () => {
  it("is said by the kind of its question", () => {
    const said = (changes: Partial<Job>) => outcome(job(changes), "BERT base");
    expect(said({ state: "running" })).toBeNull();
    expect(said({ result: analysis })).toMatch(/^Batch 244 trains 1.54x faster/);
    expect(said({ kind: "advice", result: advice })).toMatch(/faster than today/);
    expect(said({ state: "cancelled", result: null })).toBe("Cancelled");
    expect(said({ state: "failed", error_kind: "does_not_fit", result: null })).toBe(
      "BERT base does not fit, not even one sample at a time",
    );
  });
});

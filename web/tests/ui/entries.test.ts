import { describe, expect, it } from "vitest";
import { exactly, matching, nearest, valueNamed, type Entry } from "../../src/ui/entries";

const entry = (value: string, label: string, aliases: string[] = []): Entry => ({ value, label, aliases, group: "all" });
const GPUS = [entry("a10g", "NVIDIA A10G", ["A10G"]), entry("a10", "NVIDIA A10", ["A10"]), entry("h100", "NVIDIA H100")];
const MODELS = [entry("bert", "BERT base"), entry("gpt2", "GPT-2"), entry("gpt2-medium", "GPT-2 medium")];
const values = (entries: readonly Entry[]) => entries.map(({ value }) => value);

describe("a typed name", () => {
  it("is an exact one, before those that begin so", () => {
    expect(values(matching(GPUS, "a10"))).toEqual(["a10", "a10g"]);
    expect(values(matching(GPUS, "A10"))[0]).toBe("a10");
    expect(exactly(GPUS, "nvidia  a10")?.value).toBe("a10");
    expect(exactly(GPUS, "a1")).toBeUndefined();
    expect(exactly(GPUS, "")).toBeUndefined();
    expect(values(matching(MODELS, "gpt-2"))).toEqual(["gpt2", "gpt2-medium"]);
    expect(values(matching(MODELS, ""))).toEqual(values(MODELS));
  });

  it("may be near others", () => {
    expect(values(nearest(MODELS, "gpt"))).toEqual(["gpt2", "gpt2-medium"]);
    expect(values(nearest(MODELS, "brt base"))[0]).toBe("bert");
    expect(nearest(MODELS, "zzz")).toEqual([]);
  });

  it("stands for its value, and for itself where it names nothing", () => {
    expect(valueNamed(MODELS, "GPT-2")).toBe("gpt2");
    expect(valueNamed(MODELS, " org/Name ")).toBe("org/Name");
  });
});

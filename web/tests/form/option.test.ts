import { describe, expect, it } from "vitest";
import type { Option } from "../../src/api/types";
import { choicesOf, controlOf, textError, textOf, valueOf } from "../../src/form/option";
import { optionNamed, options } from "../data";

/** An option that no service has yet. */
const option = (facts: Partial<Option>): Option => ({ ...optionNamed("max_batch"), name: "new", ...facts });

describe("the control of an option", () => {
  it("follows from its declaration", () => {
    const controls = Object.fromEntries(options.map((one) => [one.name, controlOf(one)]));
    expect(controls).toMatchObject({
      precision: "segments",
      optimizer: "select",
      attention: "select",
      gradient_checkpointing: "segments",
      compile: "switch",
      small: "select",
      lora: "number",
      margin: "percent",
      seq_lens: "list",
      revision: "text",
    });
  });

  it("offers its choices by their labels, and what is left open", () => {
    expect(choicesOf(optionNamed("precision"))[1]).toEqual({ value: "bf16", label: "Mixed", hint: "bf16" });
    expect(choicesOf(option({ type: "choice", is_optional: false, choices: ["ddp"], labels: {} }))).toEqual([
      { value: "ddp", label: "Ddp", hint: undefined },
    ]);
    expect(choicesOf(optionNamed("small")).map((choice) => choice.label)).toEqual(["Default", "Small stand-in", "Full model"]);
    expect(choicesOf(option({ type: "flag", labels: {} })).map((choice) => choice.label)).toEqual(["Default", "Yes", "No"]);
  });
});

describe("a text in a field", () => {
  it("stands for a value, and a value for a text", () => {
    const read = (name: string, text: string) => valueOf(optionNamed(name), text);
    expect(read("batch_size", " 32 ")).toBe(32);
    expect(read("margin", "0.07")).toBe(0.07);
    expect(read("tf32", "true")).toBe(true);
    expect(read("precision", "int3")).toBeUndefined();
    expect(read("max_batch", "")).toBeNull();
    expect(read("batch_size", "")).toBeUndefined();
    expect(read("seq_lens", "128, 512 64,128")).toEqual([128, 512, 64]);
    expect(read("config", '{"model_type": "llama"}')).toEqual({ model_type: "llama" });
    expect(read("compare_gpus", "l4, RTX 4090;l4,")).toEqual(["l4", "RTX 4090"]);
    expect(read("prices", "l4 0.49, RTX 4090: $0.7")).toEqual({ l4: 0.49, "RTX 4090": 0.7 });
    expect(read("prices", "l4")).toBeUndefined();
    expect(textOf({ l4: 0.49, a10: 1 })).toBe("l4 0.49, a10 1");
    expect([null, 16, true, [1, 2], { a: "b" }].map(textOf)).toEqual(["", "16", "true", "1, 2", '{\n  "a": "b"\n}']);
  });

  it("is wrong by the bounds of its option", () => {
    const wrong = (name: string, text: string) => textError(optionNamed(name), text);
    expect(wrong("batch_size", "0")).toBe("Enter a whole number, 1 or more.");
    expect(wrong("batch_size", "1.5")).toBe("Enter a whole number, 1 or more.");
    expect(wrong("batch_size", "9999999999")).toBe("Enter a whole number, 1 or more and 2,147,483,647 or less.");
    expect(wrong("max_batch", "-1")).toBe("Enter a whole number, 1 or more, or leave it empty.");
    expect(wrong("memory_gib", "0")).toBe("Enter a number above 0, or leave it empty.");
    expect(wrong("margin", "1")).toBe("Enter a number, 0 or more and below 100.");
    expect(wrong("people", "x")).toBe("Enter a whole number, 1 or more.");
    expect(options.flatMap((one) => textError(one, textOf(one.default)) ?? [])).toEqual([]);
  });
});

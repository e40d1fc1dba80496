import { describe, expect, it } from "vitest";
import type { Model, Option, Task } from "../../src/api/types";
import { draftErrors, draftValues, type Ask } from "../../src/form/asking";
import { FIRST_DRAFT, textIn, withText, withValues, without, type Draft } from "../../src/form/draft";
import { HERE, isMeasured } from "../../src/form/gpu-names";
import { sampleShape } from "../../src/form/sample";
import { listedOptions, whyNot, type Situation } from "../../src/form/situation";
import { bert, optionNamed, options, resnet } from "../data";

const TASKS: Task[] = [
  { id: "ctc", title: "speech to text, CTC", sample_unit: "seconds", sample_size: 5 },
  { id: "causal-lm", title: "language models", sample_unit: "tokens", sample_size: 1024 },
];
const draftWith = (set: Record<string, string>, more: Partial<Draft> = {}): Draft => ({ ...FIRST_DRAFT, ...more, options: set });

function situation(draft: Draft, model: Model | undefined, ask: Ask, declared: readonly Option[] = options) {
  const shape = sampleShape(draft, model, TASKS, declared);
  const isForAllGpus = ask === "gpus";
  const unit = shape?.isSure ? shape.unit : null;
  const made: Situation = { draft, options: declared, unit, isMeasured: isMeasured(draft.gpu), isForAllGpus };
  return { situation: made, shape };
}
const valuesOf = (draft: Draft, model?: Model, ask: Ask = "analysis", declared = options) => {
  const made = situation(draft, model, ask, declared);
  return draftValues(made.situation, made.shape, ask);
};
const errorsOf = (draft: Draft, model?: Model, ask: Ask = "analysis") => {
  const made = situation(draft, model, ask);
  return draftErrors(made.situation, made.shape, ask);
};

describe("the form", () => {
  it("sends what differs from the declarations, and nothing else", () => {
    expect(valuesOf({ ...FIRST_DRAFT, gpu: "a10" }, bert)).toEqual({ model_name: "bert", gpu: "a10" });
    const draft = draftWith({ seq_len: "256", margin: "0.1", memory_gib: "20", tf32: "false" }, { gpu: "a10" });
    expect(valuesOf(draft, bert)).toEqual({ model_name: "bert", gpu: "a10", seq_len: 256, margin: 0.1, memory_gib: 20 });
  });

  it("asks with an option that the service has only just declared", () => {
    const allocator = { ...optionNamed("attention"), name: "allocator", default: "default", choices: ["default", "expandable"] };
    const declared = [...options, allocator];
    const draft = withText(FIRST_DRAFT, allocator, "expandable");
    expect(listedOptions({ options: declared, isForAllGpus: false })).toContain(allocator);
    expect(valuesOf(draft, bert, "analysis", declared)).toEqual({ model_name: "bert", allocator: "expandable" });
    expect(withText(draft, allocator, "default")).toEqual(FIRST_DRAFT);
  });

  it("names no GPU where it measures, and compiles only there", () => {
    const compiled = (gpu: string) => valuesOf(draftWith({ compile: "true" }, { gpu }), bert);
    expect(compiled(HERE)).toEqual({ model_name: "bert", compile: true });
    expect(compiled("cuda:1")).toEqual({ model_name: "bert", device: "cuda:1", compile: true });
    expect(compiled("a10")).toEqual({ model_name: "bert", gpu: "a10" });
  });

  it("leaves out what does not go with the model or another option", () => {
    const set = { channels_last: "true", fused: "true" };
    expect(valuesOf(draftWith({ ...set, image_size: "96" }), resnet)).toMatchObject({ channels_last: true, image_size: 96 });
    expect(valuesOf(draftWith(set), bert)).toEqual({ model_name: "bert", fused: true });
    expect(valuesOf(draftWith({ ...set, optimizer: "adafactor" }), bert)).toEqual({ model_name: "bert", optimizer: "adafactor" });
    const why = (name: string, draft: Draft) => whyNot(optionNamed(name), situation(draft, bert, "analysis").situation);
    expect(why("channels_last", FIRST_DRAFT)).toBe("Only for image models.");
    expect(why("fused", draftWith({ optimizer: "none" }))).toBe("Needs Optimizer: AdamW, Adam or SGD.");
    expect(why("fused", FIRST_DRAFT)).toBeNull();
  });

  it("names neither a GPU nor what is said of one when all GPUs are asked for", () => {
    const draft = draftWith({ memory_gib: "8", price_per_hour: "1", compile: "true", precision: "bf16" }, { gpu: HERE });
    expect(valuesOf(draft, bert, "gpus")).toEqual({ model_name: "bert", precision: "bf16", all_gpus: true });
  });

  it("names the GPUs to compare instead of all, and their prices", () => {
    const draft = draftWith({ compare_gpus: "l4, a10", prices: "l4 0.49" });
    const asked = { model_name: "bert", compare_gpus: ["l4", "a10"], prices: { l4: 0.49 } };
    expect(valuesOf(draft, bert, "gpus")).toEqual(asked);
    expect(valuesOf(draft, bert, "analysis")).toEqual({ model_name: "bert", prices: { l4: 0.49 } });
  });

  it("asks what to change, for one length", () => {
    expect(valuesOf({ ...FIRST_DRAFT, gpu: "a10" }, bert, "advice")).toEqual({ model_name: "bert", gpu: "a10", advise: true });
    expect(errorsOf(draftWith({ seq_len: "128, 256" }), bert, "advice")).toEqual({ seq_len: "Enter one size here." });
  });

  it("says what is wrong with a field", () => {
    expect(errorsOf(FIRST_DRAFT, bert)).toEqual({});
    const wrong = { batch_size: "0", seq_len: "1.5", accumulate: "", memory_gib: "-1", margin: "1" };
    expect(Object.keys(errorsOf(draftWith(wrong), bert)).sort()).toEqual(Object.keys(wrong).sort());
    expect(errorsOf({ ...FIRST_DRAFT, model: " " })).toEqual({ model_name: "Choose a model." });
  });

  it("asks for several lengths as a list, each once", () => {
    const several = draftWith({ seq_len: "128, 512 64,128" });
    expect(errorsOf(several, bert)).toEqual({});
    expect(valuesOf(several, bert)).toEqual({ model_name: "bert", seq_lens: [128, 512, 64] });
    expect(errorsOf(draftWith({ image_size: "96, 224" }), resnet)).toEqual({ image_size: "Enter one size here." });
    expect(errorsOf(draftWith({ seq_len: "128, x" }), bert)["seq_len"]).toMatch(/whole numbers/);
  });

  it("knows the sizes that a model takes", () => {
    expect(sampleShape(FIRST_DRAFT, bert, TASKS, options)).toMatchObject({ usual: 128, most: 512, unit: "tokens" });
    expect(errorsOf(draftWith({ seq_len: "128, 513" }), bert)["seq_len"]).toBe("At most 512 tokens.");
    expect(errorsOf(draftWith({ seq_len: "513" }, { model: "org/name" }))).toEqual({});
  });

  it("counts a sample as the task, the model's name or the size does", () => {
    const shape = (draft: Draft, model?: Model) => sampleShape(draft, model, TASKS, options);
    expect(shape(draftWith({ task: "ctc" }, { model: "org/name" }))).toMatchObject({ unit: "seconds", isSure: true });
    expect(shape(draftWith({ task: "causal-lm" }), bert)).toMatchObject({ usual: 1024, most: null });
    expect(shape(draftWith({}, { model: "org/name" }))).toMatchObject({ unit: "tokens", usual: null, isSure: false });
    expect(shape(draftWith({}, { model: "timm:resnet18" }))).toMatchObject({ unit: "pixels", isSure: true });
    expect(shape(draftWith({ image_size: "96" }, { model: "org/name" }))).toMatchObject({ unit: "pixels", isSure: true });
    expect(sampleShape(FIRST_DRAFT, bert, TASKS, [])).toBeNull();
  });

  it("sends a pasted config in place of a name", () => {
    const pasted = draftWith({ revision: "main" }, { isPasted: true, configText: '{"model_type": "llama"}' });
    expect(errorsOf(pasted)).toEqual({});
    expect(valuesOf(pasted)).toEqual({ config: { model_type: "llama" } });
    expect(valuesOf({ ...pasted, configName: "mine" })).toMatchObject({ model_name: "mine" });
    expect(errorsOf({ ...pasted, configText: "" })["config"]).toMatch(/Paste/);
  });

  it("sends task and revision of a Hugging Face id", () => {
    const draft = draftWith({ task: "causal-lm", revision: " v2 " }, { model: "org/name" });
    expect(valuesOf(draft)).toEqual({ model_name: "org/name", task: "causal-lm", revision: "v2" });
    expect(valuesOf({ ...draft, model: "bert" }, bert)).not.toHaveProperty("revision");
  });

  it("forgets what belongs to another model", () => {
    const draft = draftWith({ seq_len: "64", precision: "bf16" });
    expect(without(draft, (name) => name === "seq_len").options).toEqual({ precision: "bf16" });
  });
});

describe("values in the form", () => {
  it("change what they name; null leaves it as declared", () => {
    const draft = draftWith({ memory_gib: "8", precision: "fp16" }, { gpu: "a10" });
    expect(withValues(draft, { gpu: "h200", memory_gib: null, precision: "bf16" })).toEqual({
      ...draft,
      gpu: "h200",
      options: { precision: "bf16" },
    });
    expect(withValues(draft, { device: "cuda:1" }).gpu).toBe("cuda:1");
  });

  it("may be a config, with its name or without", () => {
    const config = { model_type: "llama" };
    expect(withValues(FIRST_DRAFT, { config, model_name: "mine" })).toMatchObject({ isPasted: true, configName: "mine" });
    expect(withValues(FIRST_DRAFT, { config })).toMatchObject({ isPasted: true, configName: "" });
    expect(withValues(FIRST_DRAFT, { config: null, model_name: "gpt2" })).toMatchObject({ isPasted: false, model: "gpt2" });
  });

  it("may be several lengths", () => {
    expect(withValues(FIRST_DRAFT, { seq_lens: [64, 128] }).options).toEqual({ seq_len: "64, 128" });
  });

  it("that cannot be chosen are left as declared", () => {
    expect(textIn(draftWith({ precision: "int3" }), optionNamed("precision"))).toBe("fp32");
    expect(textIn(draftWith({ tf32: "maybe" }), optionNamed("tf32"))).toBe("false");
  });
});

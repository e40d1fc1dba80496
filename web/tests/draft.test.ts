import { describe, expect, it } from "vitest";
import type { Health, Task } from "../src/api/types";
import {
  FIRST_DRAFT,
  HERE,
  allGpusBody,
  defaultGpu,
  draftBody,
  draftErrors,
  questionBody,
} from "../src/logic/draft";
import { sampleShape } from "../src/logic/sample";
import { bert, gpu, question, resnet } from "./data";

const TASKS: Task[] = [
  { id: "ctc", title: "speech to text, CTC", sample_unit: "seconds", sample_size: 5 },
  { id: "causal-lm", title: "language models", sample_unit: "tokens", sample_size: 1024 },
];
const OF_BERT = sampleShape(FIRST_DRAFT, bert, TASKS);
const OF_RESNET = sampleShape(FIRST_DRAFT, resnet, TASKS);
const OF_ANY = sampleShape(FIRST_DRAFT, undefined, TASKS);
const GPUS = [gpu("t4", 15), gpu("a10", 22.5), gpu("h100", 79.6)];

describe("the form", () => {
  it("begins with the server's GPU if it has one, else with an A10", () => {
    expect(defaultGpu(GPUS, { gpu_available: true } as Health)).toBe(HERE);
    expect(defaultGpu(GPUS, { gpu_available: false } as Health)).toBe("a10");
    expect(defaultGpu([GPUS[0]!], undefined)).toBe("t4");
  });

  it("asks what was chosen", () => {
    const draft = { ...FIRST_DRAFT, gpu: "a10", sampleSize: "256", marginPercent: "10", memoryGib: "20" };
    expect(draftBody(draft, OF_BERT)).toMatchObject({
      model_name: "bert",
      gpu: "a10",
      seq_len: 256,
      margin: 0.1,
      memory_gib: 20,
      batch_size: 16,
    });
  });

  it("names no GPU where it measures, and compiles only there", () => {
    expect(draftBody({ ...FIRST_DRAFT, gpu: HERE, compile: true }, OF_BERT)).toMatchObject({ compile: true });
    expect(draftBody({ ...FIRST_DRAFT, gpu: HERE }, OF_BERT)).not.toHaveProperty("gpu");
    expect(draftBody({ ...FIRST_DRAFT, gpu: "a10", compile: true }, OF_BERT)).toMatchObject({ compile: false });
  });

  it("leaves out what does not go with the model or the optimizer", () => {
    const all = { ...FIRST_DRAFT, checkpointing: true, channelsLast: true, fused: true, sampleSize: "96" };
    expect(draftBody(all, OF_RESNET)).toMatchObject({
      channels_last: true,
      image_size: 96,
    });
    expect(draftBody(all, OF_BERT)).toMatchObject({ gradient_checkpointing: true, channels_last: false, seq_len: 96 });
    expect(draftBody({ ...all, lora: "8" }, sampleShape({ task: "ctc" }, undefined, TASKS))).toMatchObject({ audio_seconds: 96, lora: 8 });
    expect(draftBody({ ...all, optimizer: "adafactor" }, OF_BERT)).toMatchObject({ fused: false });
  });

  it("names neither a GPU nor a cap when all GPUs are asked for", () => {
    const body = allGpusBody({ ...FIRST_DRAFT, gpu: "a10", memoryGib: "8" }, OF_BERT);
    expect(body).toMatchObject({ all_gpus: true });
    expect(body).not.toHaveProperty("gpu");
    expect(body).not.toHaveProperty("memory_gib");
  });

  it("says what is wrong with a field", () => {
    expect(draftErrors(FIRST_DRAFT, OF_BERT)).toEqual({});
    const wrong = {
      ...FIRST_DRAFT,
      batchSize: "0",
      sampleSize: "1.5",
      accumulate: "",
      memoryGib: "-1",
      marginPercent: "100",
    };
    expect(Object.keys(draftErrors(wrong, OF_BERT)).sort()).toEqual([
      "accumulate",
      "batchSize",
      "marginPercent",
      "memoryGib",
      "sampleSize",
    ]);
  });

  it("asks for several lengths as a list, each once", () => {
    const several = { ...FIRST_DRAFT, sampleSize: "128, 512 64,128" };
    expect(draftErrors(several, OF_BERT)).toEqual({});
    expect(draftBody(several, OF_BERT)).toMatchObject({ seq_lens: [128, 512, 64] });
    expect(draftBody(several, OF_BERT)).not.toHaveProperty("seq_len");
    expect(draftErrors(several, OF_BERT, true).sampleSize).toBe("One size at a time here.");
    expect(draftErrors({ ...FIRST_DRAFT, sampleSize: "96, 224" }, OF_RESNET).sampleSize).toBe(
      "One size at a time here.",
    );
    expect(draftErrors({ ...FIRST_DRAFT, sampleSize: "128, x" }, OF_BERT).sampleSize).toMatch(/Whole numbers/);
  });

  it("knows the sizes that a model takes", () => {
    expect(OF_BERT).toMatchObject({ usual: 128, most: 512, field: "seq_len" });
    expect(draftErrors({ ...FIRST_DRAFT, sampleSize: "128, 513" }, OF_BERT).sampleSize).toBe("At most 512 tokens.");
    expect(draftErrors({ ...FIRST_DRAFT, sampleSize: "513" }, OF_ANY)).toEqual({});
  });

  it("counts a sample as the task does", () => {
    expect(sampleShape({ task: "ctc" }, undefined, TASKS)).toMatchObject({ unit: "seconds", isSure: true });
    expect(sampleShape({ task: "causal-lm" }, bert, TASKS)).toMatchObject({ usual: 1024, most: null });
    expect(OF_ANY).toMatchObject({ unit: "tokens", usual: null, isSure: false });
  });

  it("sends a pasted config in place of a name", () => {
    const pasted = { ...FIRST_DRAFT, isPasted: true, configText: '{"model_type": "llama"}', revision: "main" };
    expect(draftErrors(pasted, OF_ANY)).toEqual({});
    expect(draftBody(pasted, OF_ANY)).toMatchObject({ config: { model_type: "llama" } });
    expect(draftBody(pasted, OF_ANY)).not.toHaveProperty("model_name");
    expect(draftBody(pasted, OF_ANY)).not.toHaveProperty("revision");
    expect(draftErrors({ ...pasted, configText: "" }, OF_ANY).configText).toMatch(/Paste/);
  });

  it("sends task and revision of a Hugging Face id", () => {
    const draft = { ...FIRST_DRAFT, model: "org/name", task: "causal-lm", revision: " v2 " };
    expect(draftBody(draft, OF_ANY)).toMatchObject({ model_name: "org/name", task: "causal-lm", revision: "v2" });
    expect(draftBody({ ...draft, model: "bert" }, OF_BERT)).not.toHaveProperty("revision");
  });
});

describe("asking again", () => {
  it("asks the same question", () => {
    expect(questionBody(question)).toMatchObject({
      model_name: "bert",
      gpu: "a10",
      device: "auto",
      precision: "fp32",
      batch_size: 16,
      memory_gib: null,
      hours_per_run: 2,
    });
  });
});

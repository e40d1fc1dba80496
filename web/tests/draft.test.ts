import { describe, expect, it } from "vitest";
import type { Health } from "../src/api/types";
import {
  FIRST_DRAFT,
  HERE,
  allGpusBody,
  defaultGpu,
  draftBody,
  draftErrors,
  questionBody,
  usualSampleSize,
} from "../src/logic/draft";
import { waysToFit } from "../src/logic/ways-to-fit";
import { bert, gpu, question, resnet } from "./data";

const GPUS = [gpu("t4", 15), gpu("a10", 22.5), gpu("h100", 79.6)];

describe("the form", () => {
  it("begins with the server's GPU if it has one, else with an A10", () => {
    expect(defaultGpu(GPUS, { gpu_available: true } as Health)).toBe(HERE);
    expect(defaultGpu(GPUS, { gpu_available: false } as Health)).toBe("a10");
    expect(defaultGpu([GPUS[0]!], undefined)).toBe("t4");
  });

  it("asks what was chosen", () => {
    const draft = { ...FIRST_DRAFT, gpu: "a10", sampleSize: "256", marginPercent: "10", memoryGib: "20" };
    expect(draftBody(draft, bert)).toMatchObject({
      model_name: "bert",
      gpu: "a10",
      seq_len: 256,
      margin: 0.1,
      memory_gib: 20,
      batch_size: 16,
    });
  });

  it("names no GPU where it measures, and compiles only there", () => {
    expect(draftBody({ ...FIRST_DRAFT, gpu: HERE, compile: true }, bert)).toMatchObject({ compile: true });
    expect(draftBody({ ...FIRST_DRAFT, gpu: HERE }, bert)).not.toHaveProperty("gpu");
    expect(draftBody({ ...FIRST_DRAFT, gpu: "a10", compile: true }, bert)).toMatchObject({ compile: false });
  });

  it("leaves out what does not go with the model or the optimizer", () => {
    const all = { ...FIRST_DRAFT, checkpointing: true, channelsLast: true, fused: true, sampleSize: "96" };
    expect(draftBody(all, resnet)).toMatchObject({
      channels_last: true,
      image_size: 96,
    });
    expect(draftBody(all, bert)).toMatchObject({ gradient_checkpointing: true, channels_last: false, seq_len: 96 });
    expect(draftBody({ ...all, lora: "8" }, { ...bert, type: "audio" })).toMatchObject({ audio_seconds: 96, lora: 8 });
    expect(draftBody({ ...all, optimizer: "adafactor" }, bert)).toMatchObject({ fused: false });
  });

  it("names neither a GPU nor a cap when all GPUs are asked for", () => {
    const body = allGpusBody({ ...FIRST_DRAFT, gpu: "a10", memoryGib: "8" }, bert);
    expect(body).toMatchObject({ all_gpus: true });
    expect(body).not.toHaveProperty("gpu");
    expect(body).not.toHaveProperty("memory_gib");
  });

  it("says what is wrong with a field", () => {
    expect(draftErrors(FIRST_DRAFT)).toEqual({});
    const wrong = {
      ...FIRST_DRAFT,
      batchSize: "0",
      sampleSize: "1.5",
      accumulate: "",
      memoryGib: "-1",
      marginPercent: "100",
    };
    expect(Object.keys(draftErrors(wrong)).sort()).toEqual([
      "accumulate",
      "batchSize",
      "marginPercent",
      "memoryGib",
      "sampleSize",
    ]);
  });

  it("knows the usual sample size from the description", () => {
    expect(usualSampleSize(bert)).toBe("128");
    expect(usualSampleSize(resnet)).toBe("224");
    expect(usualSampleSize(undefined)).toBe("");
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

  it("offers one change at a time when nothing fits", () => {
    const ways = waysToFit(question, bert, GPUS);
    expect(ways.map((way) => way.label)).toEqual([
      "Mixed precision (bf16)",
      "Gradient checkpointing",
      "SGD",
      "NVIDIA H100, 80 GiB",
    ]);
    expect(ways[0]?.body).toMatchObject({ precision: "bf16", gpu: "a10" });
    expect(ways.at(-1)?.body).toMatchObject({ precision: "fp32", gpu: "h100" });
  });
});

import { describe, expect, it } from "vitest";
import type { Recording } from "../../src/api/types";
import { isRecorded, recordedWords } from "../../src/result/recorded";

const RECORDING: Recording = {
  model_name: "bert",
  gpu_name: "NVIDIA A10",
  source: "predicted",
  recorded_at: "2026-11-18T10:00:00.000+00:00",
  seconds: 8,
  note: "",
  machine: { host: "", system: "Linux x86_64", python: "3.11.7", processors: 2, gpus: [], driver: null },
  versions: { torch: "2.13.0" },
  options: { model_name: "bert", gpu: "a10" },
};

describe("a recording", () => {
  it("says what was predicted, where and when", () => {
    const words = recordedWords(RECORDING, "BERT base");
    expect(words).toMatch(/^Not live: BERT base on NVIDIA A10, predicted\. Recorded 18 Nov 2026/);
    expect(words).toContain("on Linux x86_64, torch 2.13.0.");
  });

  it("was measured on the GPU that it names", () => {
    const words = recordedWords({ ...RECORDING, gpu_name: "NVIDIA H200", source: "measured" }, "BERT base");
    expect(words).toContain("BERT base on NVIDIA H200, measured.");
    expect(words).not.toContain("Linux");
  });

  it("of all GPUs names none", () => {
    expect(recordedWords({ ...RECORDING, gpu_name: null, source: null }, "BERT base")).toContain("Not live: BERT base.");
  });

  it("marks the jobs that it plays", () => {
    expect(isRecorded({ origin: "recording" })).toBe(true);
    expect(isRecorded({ origin: "http" })).toBe(false);
  });
});

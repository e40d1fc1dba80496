import { describe, expect, it } from "vitest";
import type { Health } from "../../src/api/types";
import { defaultGpu, gpuEntries, HERE, wrongGpu } from "../../src/form/gpu-names";
import { kindOfName, knownModel, modelEntries, otherModel, wrongModel } from "../../src/form/model-names";
import { exactly } from "../../src/ui/entries";
import { bert, gpu, resnet } from "../data";

const GPUS = gpuEntries([gpu("a10g", 22), gpu("a10", 22.5), gpu("h100", 79.6)], undefined);
const MODELS = modelEntries([
  bert,
  { ...bert, id: "gpt2", name: "GPT-2", huggingface_id: "openai-community/gpt2" },
  { ...bert, id: "gpt2-medium", name: "GPT-2 medium", huggingface_id: "openai-community/gpt2-medium" },
  resnet,
]);

describe("the name of a model", () => {
  it("says by its spelling where the model comes from", () => {
    expect(["org/name", "timm:resnet18", "vit_base_patch16_224", "my.py:make", "./a/folder", "~/model"].map(kindOfName)).toEqual([
      "hub",
      "timm",
      "timm",
      "server",
      "server",
      "server",
    ]);
    expect(["", "two words", "gpt"].map(kindOfName)).toEqual([null, null, null]);
  });

  it("is not called wrong where the service may know it", () => {
    const typed = ["gpt2", "BERT base", "timm:resnet18", "org/name", "vit_base_patch16_224", "resnet50", "./a/folder", "my.py:make"];
    expect(typed.map((text) => wrongModel(MODELS, text))).toEqual(typed.map(() => null));
    expect(otherModel("org/name")).toMatchObject({ value: "org/name", label: "org/name" });
    expect(knownModel([bert], "Google-BERT/bert-base-uncased")).toBe(bert);
  });

  it("is wrong where nothing is called so, with what may have been meant", () => {
    expect(wrongModel(MODELS, "gpt")).toEqual({
      text: "No model is called “gpt”.",
      suggestions: [
        { label: "GPT-2", change: { model_name: "gpt2" } },
        { label: "GPT-2 medium", change: { model_name: "gpt2-medium" } },
      ],
      isGuess: true,
    });
    expect(wrongModel(MODELS, "two words")).not.toBeNull();
    expect(wrongModel([], "gpt")).toBeNull();
  });
});

describe("the name of a GPU", () => {
  it("is wrong where none is called so, with what may have been meant", () => {
    expect(wrongGpu(GPUS, "a10x")?.suggestions).toContainEqual({ label: "NVIDIA A10", change: { gpu: "a10" } });
    expect(wrongGpu(GPUS, HERE)?.text).toBe("This server has no GPU to measure on.");
    expect(wrongGpu(GPUS, "cuda:1")).toBeNull();
    expect(wrongGpu([], "foo")).toBeNull();
  });

  it("means the server's own GPU where it has that one", () => {
    const here = { ...gpu("a10", 22.5), here: true };
    const entries = gpuEntries([here], { gpu_available: true, gpu_name: "NVIDIA A10" } as Health);
    expect(exactly(entries, "a10")?.value).toBe(HERE);
  });

  it("is the server's own at first if it has one, else the catalog's default", () => {
    const gpus = [gpu("t4", 15), { ...gpu("a10", 22.5), default: true }];
    expect(defaultGpu(gpus, { gpu_available: true } as Health)).toBe(HERE);
    expect(defaultGpu(gpus, { gpu_available: false } as Health)).toBe("a10");
    expect(defaultGpu([gpus[0]!], undefined)).toBe("t4");
  });
});

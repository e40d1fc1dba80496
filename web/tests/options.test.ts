import { describe, expect, it } from "vitest";
import type { Health } from "../src/api/types";
import { gpuOptions, knownModel, modelOptions, named, otherModel, wrongGpu, wrongModel } from "../src/logic/asked-names";
import { FIRST_DRAFT, HERE } from "../src/logic/draft";
import { exactly, matching, nearest, type Option } from "../src/logic/options";
import { bert, gpu, resnet } from "./data";

const GPUS = gpuOptions([gpu("a10g", 22), gpu("a10", 22.5), gpu("h100", 79.6)], undefined);
const MODELS = modelOptions([
  bert,
  { ...bert, id: "gpt2", name: "GPT-2", huggingface_id: "openai-community/gpt2" },
  { ...bert, id: "gpt2-medium", name: "GPT-2 medium", huggingface_id: "openai-community/gpt2-medium" },
  resnet,
]);
const values = (options: readonly Option[]) => options.map((option) => option.value);

describe("a typed name", () => {
  it("is the one that is called so, before those that begin so", () => {
    expect(values(matching(GPUS, "a10"))).toEqual(["a10", "a10g"]);
    expect(values(matching(GPUS, "A10"))[0]).toBe("a10");
    expect(exactly(GPUS, "nvidia  a10")?.value).toBe("a10");
    expect(exactly(GPUS, "a1")).toBeUndefined();
    expect(exactly(GPUS, "")).toBeUndefined();
    expect(values(matching(MODELS, "gpt-2"))).toEqual(["gpt2", "gpt2-medium"]);
    expect(values(matching(MODELS, ""))).toEqual(values(MODELS));
  });

  it("is not called wrong where the service may know it", () => {
    const typed = ["gpt2", "BERT base", "timm:resnet18", "org/name", "vit_base_patch16_224", "resnet50", "./a/folder", "my.py:make"];
    expect(typed.map((text) => wrongModel(MODELS, text))).toEqual(typed.map(() => null));
    expect(otherModel("org/name")).toMatchObject({ value: "org/name", label: "org/name" });
  });

  it("is wrong where nothing is called so, with what may have been meant", () => {
    expect(wrongModel(MODELS, "gpt")).toMatchObject({ text: "Nothing is called “gpt”." });
    expect(values(wrongModel(MODELS, "gpt")?.near ?? [])).toEqual(["gpt2", "gpt2-medium"]);
    expect(values(nearest(MODELS, "brt base"))[0]).toBe("bert");
    expect(nearest(MODELS, "zzz")).toEqual([]);
    expect(wrongModel(MODELS, "two words")).not.toBeNull();
    expect(values(wrongGpu(GPUS, "a10x")?.near ?? [])).toContain("a10");
    expect(wrongGpu(GPUS, HERE)?.text).toBe("This server has no GPU to measure on.");
    expect(wrongGpu(GPUS, "cuda:1")).toBeNull();
  });

  it("is not judged before the catalog is there", () => {
    expect([wrongModel([], "gpt"), wrongGpu([], "foo")]).toEqual([null, null]);
  });

  it("is sent by its id, and as it stands where it has none", () => {
    expect(named({ ...FIRST_DRAFT, model: "GPT-2", gpu: "NVIDIA A10" }, MODELS, GPUS)).toMatchObject({ model: "gpt2", gpu: "a10" });
    expect(named({ ...FIRST_DRAFT, model: " org/Name " }, MODELS, GPUS).model).toBe("org/Name");
    expect(knownModel([bert], "Google-BERT/bert-base-uncased")).toBe(bert);
  });

  it("means the server's own GPU where it has that one", () => {
    const here = { ...gpu("a10", 22.5), here: true };
    const options = gpuOptions([here], { gpu_available: true, gpu_name: "NVIDIA A10" } as Health);
    expect(exactly(options, "a10")?.value).toBe(HERE);
  });
});

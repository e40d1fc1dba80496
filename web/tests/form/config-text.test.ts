import { describe, expect, it } from "vitest";
import { optionNamed } from "../data";
import { configError, configWords, readConfig } from "../../src/form/config-text";

const LLAMA = { model_type: "llama", num_hidden_layers: 32, hidden_size: 4096 };

describe("a pasted config", () => {
  it("is taken as transformers writes it, and as it prints it", () => {
    expect(readConfig(JSON.stringify(LLAMA)).config).toEqual(LLAMA);
    expect(readConfig(`LlamaConfig ${JSON.stringify(LLAMA, null, 2)}\n`).config).toEqual(LLAMA);
  });

  it("is said in a few words", () => {
    expect(configWords(LLAMA)).toBe("A llama model, 32 layers, 4096 wide");
    expect(configWords({ model_type: "resnet" })).toBe("A resnet model");
  });

  it.each([
    ["", /Paste/],
    ["bert-base-uncased", /not JSON: a config.json begins with {/],
    ['{"model_type": "bert", "hidden_size": 768,', /ends too early/],
    ['{"model_type": "bert", hidden: 768}', /not JSON: paste the file unchanged/],
    ["[1, 2]", /not a config: a config.json is one object/],
    ['{"hidden_size": 768}', /no model_type/],
    ['{"architecture": "vit_base_patch16_224"}', /timm:vit_base_patch16_224/],
    ['{"base_model_name_or_path": "x/y", "peft_type": "LORA"}', /adapter/],
    ['{"auto_map": {}}', /its own code/],
    ['{"tokenizer_class": "BertTokenizer"}', /tokenizer/],
  ])("that is none is told why: %.40s", (text, reason) => {
    expect(readConfig(text)).toMatchObject({ config: null, error: expect.stringMatching(reason) });
    expect(configError(text, undefined)).toMatch(reason);
  });

  it("is no larger than the service takes", () => {
    const text = `{"model_type": "bert", "x": "${"x".repeat(300_000)}"}`;
    expect(configError(text, optionNamed("config"))).toMatch(/larger than 256 KiB/);
  });
});

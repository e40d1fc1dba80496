import { describe, expect, it } from "vitest";
import type { Recipe } from "../src/api/types";
import { snippets } from "../src/logic/code-snippets";
import { analysis } from "./data";

const code = (changes: Partial<Recipe>, batch = 244) =>
  Object.fromEntries(
    snippets({ ...analysis.recipe, ...changes }, batch).map((snippet) => [snippet.name, snippet.code]),
  );

describe("code to copy", () => {
  it("has the batch size in every framework", () => {
    const { PyTorch, Transformers, Lightning } = code({});
    expect(PyTorch).toContain("batch_size=244");
    expect(Transformers).toContain("per_device_train_batch_size=244");
    expect(Lightning).toContain("batch_size=244");
  });

  it("has the precision", () => {
    const { PyTorch, Transformers, Lightning } = code({ precision: "bf16" });
    expect(PyTorch).toContain("dtype=torch.bfloat16");
    expect(Transformers).toContain("bf16=True");
    expect(Lightning).toContain('precision="bf16-mixed"');
    expect(code({ precision: "fp16" })["PyTorch"]).toContain("scaler.scale(loss).backward()");
    expect(code({})["Transformers"]).not.toContain("bf16");
  });

  it("imports what an 8-bit optimizer comes from", () => {
    const { PyTorch, Transformers } = code({ optimizer: "adamw8bit" });
    expect(PyTorch).toMatch(/^import bitsandbytes as bnb\n/);
    expect(PyTorch).toContain("bnb.optim.AdamW8bit(model.parameters())");
    expect(Transformers).toContain('optim="adamw_bnb_8bit"');
    expect(code({})["PyTorch"]).toContain("torch.optim.AdamW(model.parameters())");
  });

  it("has the rest of the recipe", () => {
    const all = code({ fused: true, gradient_checkpointing: true, accumulation_steps: 4, tf32: true, compile: true });
    expect(all["PyTorch"]).toContain("AdamW(model.parameters(), fused=True)");
    expect(all["PyTorch"]).toContain("if (i + 1) % 4 == 0:");
    expect(all["Transformers"]).toContain('optim="adamw_torch_fused"');
    expect(all["Transformers"]).toContain("gradient_accumulation_steps=4");
    expect(all["Transformers"]).toContain("gradient_checkpointing=True");
    expect(all["Lightning"]).toContain("accumulate_grad_batches=4");
  });
});

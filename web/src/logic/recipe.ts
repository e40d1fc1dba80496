// A recipe in words.
import type { Optimizer, Precision, Recipe } from "../api/types";

export const PRECISIONS: Record<Precision, { label: string; hint: string }> = {
  fp32: { label: "Full", hint: "fp32" },
  bf16: { label: "Mixed", hint: "bf16" },
  fp16: { label: "Mixed", hint: "fp16" },
};

export const OPTIMIZERS: Record<Optimizer, string> = {
  adamw: "AdamW",
  adam: "Adam",
  sgd: "SGD",
  adafactor: "Adafactor",
  adamw8bit: "8-bit AdamW",
  none: "No optimizer",
};

export const FUSED_OPTIMIZERS: readonly Optimizer[] = ["adamw", "adam", "sgd"];

/** A few words, what is usual left out. */
export function recipeWords(recipe: Recipe): string[] {
  return [
    recipe.precision,
    (recipe.fused ? "fused " : "") + OPTIMIZERS[recipe.optimizer],
    ...(recipe.lora > 0 ? [`LoRA rank ${recipe.lora}`] : []),
    ...(recipe.gradient_checkpointing ? ["gradient checkpointing"] : []),
    // Older records do not have it.
    ...((recipe.attention ?? "auto") === "auto"
      ? []
      : [`${recipe.attention === "sdpa" ? "SDPA" : "eager"} attention`]),
    ...(recipe.compile ? ["torch.compile"] : []),
    ...(recipe.tf32 ? ["TF32"] : []),
    ...(recipe.channels_last ? ["channels_last"] : []),
    ...(recipe.accumulation_steps > 1 ? [`${recipe.accumulation_steps} accumulation steps`] : []),
    ...(recipe.train_mode ? [] : ["eval mode"]),
    ...(recipe.loss === "mean" ? ["mean of the logits as loss"] : []),
  ];
}

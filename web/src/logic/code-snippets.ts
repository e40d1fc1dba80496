// The recommended batch as code to copy.
import type { Optimizer, Recipe } from "../api/types";

export interface Snippet {
  name: string;
  code: string;
}

const TORCH_OPTIMIZERS: Record<Optimizer, string> = {
  adamw: "torch.optim.AdamW",
  adam: "torch.optim.Adam",
  sgd: "torch.optim.SGD",
  adafactor: "torch.optim.Adafactor",
  adamw8bit: "bnb.optim.AdamW8bit",
  none: "",
};

export function snippets(recipe: Recipe, batchSize: number): Snippet[] {
  return [
    { name: "PyTorch", code: pytorch(recipe, batchSize) },
    { name: "Transformers", code: transformers(recipe, batchSize) },
    { name: "Lightning", code: lightning(recipe, batchSize) },
  ];
}

function pytorch(recipe: Recipe, batchSize: number): string {
  const { precision, accumulation_steps: steps } = recipe;
  const isScaled = precision === "fp16";
  const hasOptimizer = recipe.optimizer !== "none";
  const loss = steps > 1 ? `model(**batch).loss / ${steps}` : "model(**batch).loss";
  const forward =
    precision === "fp32"
      ? [`    loss = ${loss}`]
      : [
          `    with torch.autocast("cuda", dtype=torch.${precision === "bf16" ? "bfloat16" : "float16"}):`,
          `        loss = ${loss}`,
        ];
  const indent = steps > 1 ? "        " : "    ";
  const update = !hasOptimizer
    ? []
    : [
        ...(steps > 1 ? [`    if (i + 1) % ${steps} == 0:`] : []),
        ...(isScaled ? [`${indent}scaler.step(optimizer)`, `${indent}scaler.update()`] : [`${indent}optimizer.step()`]),
        `${indent}optimizer.zero_grad(set_to_none=True)`,
      ];
  return lines([
    ...(recipe.optimizer === "adamw8bit" ? ["import bitsandbytes as bnb"] : []),
    "import torch",
    "from torch.utils.data import DataLoader",
    ...loraImport(recipe),
    "",
    ...(recipe.tf32 ? ['torch.set_float32_matmul_precision("high")  # TF32'] : []),
    ...lora(recipe),
    ...(recipe.gradient_checkpointing ? ["model.gradient_checkpointing_enable()"] : []),
    ...(recipe.channels_last ? ["model = model.to(memory_format=torch.channels_last)"] : []),
    ...(recipe.compile ? ["model = torch.compile(model)"] : []),
    ...(hasOptimizer
      ? [
          `optimizer = ${TORCH_OPTIMIZERS[recipe.optimizer]}(model.parameters()${recipe.fused ? ", fused=True" : ""})`,
        ]
      : []),
    ...(isScaled ? ['scaler = torch.amp.GradScaler("cuda")'] : []),
    ...loader(batchSize),
    "",
    steps > 1 ? "for i, batch in enumerate(loader):" : "for batch in loader:",
    ...forward,
    isScaled ? "    scaler.scale(loss).backward()" : "    loss.backward()",
    ...update,
  ]);
}

function transformers(recipe: Recipe, batchSize: number): string {
  const optim: Record<Optimizer, string | null> = {
    adamw: recipe.fused ? "adamw_torch_fused" : "adamw_torch",
    adam: recipe.fused ? "adamw_torch_fused" : "adamw_torch",
    sgd: "sgd",
    adafactor: "adafactor",
    adamw8bit: "adamw_bnb_8bit",
    none: null,
  };
  const name = optim[recipe.optimizer];
  return lines([
    "from transformers import TrainingArguments",
    ...loraImport(recipe),
    "",
    ...lora(recipe),
    "args = TrainingArguments(",
    '    output_dir="out",',
    `    per_device_train_batch_size=${batchSize},`,
    ...(recipe.accumulation_steps > 1 ? [`    gradient_accumulation_steps=${recipe.accumulation_steps},`] : []),
    ...(recipe.precision === "fp32" ? [] : [`    ${recipe.precision}=True,`]),
    ...(name ? [`    optim="${name}",`] : []),
    ...(recipe.optimizer === "adam" ? ["    weight_decay=0.0,  # AdamW without decay is Adam"] : []),
    ...(recipe.gradient_checkpointing ? ["    gradient_checkpointing=True,"] : []),
    ...(recipe.tf32 ? ["    tf32=True,"] : []),
    ...(recipe.compile ? ["    torch_compile=True,"] : []),
    "    dataloader_num_workers=4,",
    "    dataloader_pin_memory=True,",
    ")",
  ]);
}

function lightning(recipe: Recipe, batchSize: number): string {
  const precision = { fp32: "32-true", bf16: "bf16-mixed", fp16: "16-mixed" }[recipe.precision];
  return lines([
    "import lightning as L",
    ...(recipe.tf32 ? ["import torch"] : []),
    "from torch.utils.data import DataLoader",
    "",
    ...(recipe.tf32 ? ['torch.set_float32_matmul_precision("high")  # TF32'] : []),
    ...loader(batchSize),
    "trainer = L.Trainer(",
    '    accelerator="gpu",',
    "    devices=1,",
    `    precision="${precision}",`,
    ...(recipe.accumulation_steps > 1 ? [`    accumulate_grad_batches=${recipe.accumulation_steps},`] : []),
    ")",
    "trainer.fit(module, loader)",
  ]);
}

function loraImport(recipe: Recipe): string[] {
  return recipe.lora > 0 ? ["from peft import LoraConfig, get_peft_model"] : [];
}

function lora(recipe: Recipe): string[] {
  return recipe.lora > 0 ? [`model = get_peft_model(model, LoraConfig(r=${recipe.lora}))`] : [];
}

function loader(batchSize: number): string[] {
  return [
    "loader = DataLoader(",
    `    dataset, batch_size=${batchSize}, shuffle=True, num_workers=4, pin_memory=True`,
    ")",
  ];
}

function lines(all: string[]): string {
  return all.join("\n") + "\n";
}

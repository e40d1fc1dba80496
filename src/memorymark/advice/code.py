"""A recipe as code to paste: plain PyTorch, transformers' Trainer, Lightning. Pure, no torch."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from typing import Literal

from memorymark.recipe import Recipe

Dialect = Literal["pytorch", "transformers", "lightning"]
OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "adafactor": "Adafactor"}
# What a model of transformers and a recipe's optimizer look like, to be replaced by what is the user's own.
OWN_LOSS = re.compile(r"([\w.]+)\(\*\*batch\)\.loss")
OWN_OPTIMIZER = re.compile(
    r"(optimizer =|return) torch\.optim\.\w+\((?:\[p for p in )?(\w+(?:\.\w+)?)\.parameters\(\).*\)"
)
# With these, peft trains a new head in whole.
PEFT_TASKS = {
    "causal-lm": "CAUSAL_LM",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
}
HALF = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


@dataclass(frozen=True)
class Code:
    """The same recipe in three dialects.

    What they take as given, because it is the user's: ``model``, a module whose output has a ``loss``;
    ``make_loader``, a function from a batch size to a data loader of dictionaries; ``dataset`` for the Trainer; and
    ``LEARNING_RATE``. Where the loss or the optimizer is the user's own, also ``loss_of(model, batch)`` and
    ``make_optimizer(model)``.
    """

    pytorch: str
    transformers: str
    lightning: str


def code_for(
    recipe: Recipe,
    batch_size: int,
    accumulation_steps: int = 1,
    *,
    seq_len: int | None = None,
    task: str | None = None,
    own_loss: bool = False,
    own_optimizer: bool = False,
) -> Code:
    """The recipe at a batch size as code; ``seq_len`` is what samples are cut to, ``task`` one of ``models.tasks``."""
    code = _code_for(recipe, batch_size, accumulation_steps, seq_len, task)
    if own_loss:
        code = Code(*(OWN_LOSS.sub(r"loss_of(\1, batch)", text) for text in astuple(code)))
    if own_optimizer:
        code = Code(*(OWN_OPTIMIZER.sub(r"\1 make_optimizer(\2)", text) for text in astuple(code)))
    return code


def _code_for(recipe: Recipe, batch_size: int, accumulation_steps: int, seq_len: int | None, task: str | None) -> Code:
    cut = f"# Cut samples at {seq_len} tokens where you make them: max_length={seq_len}, truncation=True.\n"
    codes = (write(recipe, batch_size, accumulation_steps, task) for write in (_pytorch, _transformers, _lightning))
    return Code(*(cut + code if seq_len else code for code in codes))


def _pytorch(recipe: Recipe, batch_size: int, accumulation_steps: int, task: str | None) -> str:
    accumulates, scales = accumulation_steps > 1, recipe.precision == "fp16"
    setup = [
        "import torch",
        *(["import bitsandbytes"] if recipe.optimizer == "adamw8bit" else []),
        *_lora_imports(recipe),
        "",
        f"BATCH_SIZE = {batch_size}",
        *([f"ACCUMULATION_STEPS = {accumulation_steps}"] if accumulates else []),
        "",
        *(['torch.set_float32_matmul_precision("high")  # TF32'] if recipe.tf32 else []),
        *_model_lines(recipe, task),
        'model = model.to("cuda"' + (", memory_format=torch.channels_last)" if recipe.channels_last else ")"),
        "model.train()" if recipe.train_mode else "model.eval()",
        *_optimizer_lines(recipe),
        *(['scaler = torch.amp.GradScaler("cuda")'] if scales else []),
        *(["forward = torch.compile(model)"] if recipe.compile else []),
        "",
    ]
    enumerated = "for step, batch in enumerate(make_loader(BATCH_SIZE), 1):"
    moved = 'batch = {name: value.to("cuda", non_blocking=True) for name, value in batch.items()}'
    laid_out = 'batch["pixel_values"] = batch["pixel_values"].contiguous(memory_format=torch.channels_last)'
    loss = f"loss = {'forward' if recipe.compile else 'model'}(**batch).loss"
    loss += " / ACCUMULATION_STEPS" if accumulates else ""
    if recipe.precision in HALF:
        forward = [f'with torch.autocast("cuda", dtype={HALF[recipe.precision]}):', f"    {loss}"]
    else:
        forward = [loss]
    update = ["scaler.step(optimizer)", "scaler.update()"] if scales else ["optimizer.step()"]
    update.append("optimizer.zero_grad(set_to_none=True)")
    if recipe.optimizer == "none":
        update = ["model.zero_grad(set_to_none=True)"]
    if accumulates:
        update = ["if step % ACCUMULATION_STEPS == 0:", *(f"    {line}" for line in update)]
    loop = [
        moved,
        *([laid_out] if recipe.channels_last else []),
        *forward,
        "scaler.scale(loss).backward()" if scales else "loss.backward()",
        *update,
    ]
    head = enumerated if accumulates else "for batch in make_loader(BATCH_SIZE):"
    return "\n".join([*setup, head, *(f"    {line}" for line in loop), ""])


def _transformers(recipe: Recipe, batch_size: int, accumulation_steps: int, task: str | None) -> str:
    fused = "_fused" if recipe.fused else ""
    names = {"adamw": f"adamw_torch{fused}", "sgd": "sgd", "adafactor": "adafactor", "adamw8bit": "adamw_bnb_8bit"}
    arguments = [
        'output_dir="out"',
        f"per_device_train_batch_size={batch_size}",
        *([f"gradient_accumulation_steps={accumulation_steps}"] if accumulation_steps > 1 else []),
        "learning_rate=LEARNING_RATE",
        *([f"{recipe.precision}=True"] if recipe.precision in HALF else []),
        *(["tf32=True"] if recipe.tf32 else []),
        f'optim="{names.get(recipe.optimizer, "adamw_torch")}"',
        *(['optim_args="momentum=0.9"'] if recipe.optimizer == "sgd" else []),
        *(["gradient_checkpointing=True"] if recipe.gradient_checkpointing else []),
        *(["torch_compile=True"] if recipe.compile else []),
    ]
    lines = [
        *(["import torch"] if recipe.channels_last or (recipe.lora and recipe.precision in HALF) else []),
        *_lora_imports(recipe),
        "from transformers import Trainer, TrainingArguments",
        "",
        *_model_lines(recipe, task, checkpointing=False),
        *(["model = model.to(memory_format=torch.channels_last)"] if recipe.channels_last else []),
        "args = TrainingArguments(",
        *(f"    {argument}," for argument in arguments),
        ")",
        "trainer = Trainer(model=model, args=args, train_dataset=dataset)",
        "trainer.train()",
        "",
    ]
    return "\n".join(lines)


def _lightning(recipe: Recipe, batch_size: int, accumulation_steps: int, task: str | None) -> str:
    precision = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}[recipe.precision]
    called = "self.forward_compiled" if recipe.compile else "self.model"
    module = [
        "def __init__(self, model):",
        "    super().__init__()",
        "    self.model = model",
        *(["    self.forward_compiled = torch.compile(model)"] if recipe.compile else []),
        "",
        "def training_step(self, batch, _):",
        f"    return {called}(**batch).loss",
        "",
        "def configure_optimizers(self):",
        *(f"    {line}" for line in _optimizer_lines(recipe, model="self.model", result="return") or ["return []"]),
    ]
    trainer = [
        'accelerator="gpu"',
        "devices=1",
        f'precision="{precision}"',
        *([f"accumulate_grad_batches={accumulation_steps}"] if accumulation_steps > 1 else []),
    ]
    lines = [
        "import lightning",
        "import torch",
        *(["import bitsandbytes"] if recipe.optimizer == "adamw8bit" else []),
        *_lora_imports(recipe),
        "",
        f"BATCH_SIZE = {batch_size}",
        "",
        *(['torch.set_float32_matmul_precision("high")  # TF32'] if recipe.tf32 else []),
        *_model_lines(recipe, task),
        *(["model = model.to(memory_format=torch.channels_last)"] if recipe.channels_last else []),
        "",
        "",
        "class Training(lightning.LightningModule):",
        *(f"    {line}" if line else "" for line in module),
        "",
        "",
        f"trainer = lightning.Trainer({', '.join(trainer)})",
        "trainer.fit(Training(model), make_loader(BATCH_SIZE))",
        "",
    ]
    return "\n".join(lines)


def _lora_imports(recipe: Recipe) -> list[str]:
    return ["from peft import LoraConfig, get_peft_model"] if recipe.lora else []


def _model_lines(recipe: Recipe, task: str | None, *, checkpointing: bool = True) -> list[str]:
    half = HALF.get(recipe.precision)
    lines = []
    if recipe.attention == "sdpa":
        lines.append('model.set_attn_implementation("sdpa")')
    if recipe.lora:
        lines += [f"model = model.to({half})  # frozen weights need no more"] if half else []
        kind = PEFT_TASKS.get(task or "")
        for_task = f', task_type="{kind}"' if kind else ""
        config = f'LoraConfig(r={recipe.lora}, target_modules="all-linear"{for_task})'
        if kind is None:
            lines.append("# A head that is new must be named in modules_to_save, or it stays random.")
        lines.append(f"model = get_peft_model(model, {config})")
    if recipe.gradient_checkpointing and checkpointing:
        lines.append("model.gradient_checkpointing_enable()")
    if recipe.gradient_checkpointing and recipe.lora:
        lines.append("model.enable_input_require_grads()")
    return lines


def _optimizer_lines(recipe: Recipe, model: str = "model", result: str = "optimizer =") -> list[str]:
    if recipe.optimizer == "none":
        return []
    library = "bitsandbytes.optim.AdamW8bit" if recipe.optimizer == "adamw8bit" else None
    name = library or f"torch.optim.{OPTIMIZERS[recipe.optimizer]}"
    extra = ", momentum=0.9" if recipe.optimizer == "sgd" else ""
    extra += ", fused=True" if recipe.fused else ""
    trained = f"[p for p in {model}.parameters() if p.requires_grad]" if recipe.lora else f"{model}.parameters()"
    return [f"{result} {name}({trained}, lr=LEARNING_RATE{extra})"]

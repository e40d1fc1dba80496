"""A recipe as code to paste: plain PyTorch, transformers' Trainer, Lightning. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memorymark.models.tasks import TELLS_PROBLEM_TYPE
from memorymark.own import OwnRequest
from memorymark.probe import ProbeInfo
from memorymark.recipe import Recipe
from memorymark.request import Request

Dialect = Literal["pytorch", "transformers", "lightning"]
OPTIMIZERS = {
    "adamw": "torch.optim.AdamW",
    "adam": "torch.optim.Adam",
    "sgd": "torch.optim.SGD",
    "adafactor": "torch.optim.Adafactor",
    "adamw8bit": "bitsandbytes.optim.AdamW8bit",
}
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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the code must do, on a ``device`` by torch's name.

    ``seq_len`` is what samples are cut to, ``task`` one of ``models.tasks``.
    """

    recipe: Recipe
    batch_size: int
    device: str = "cuda"
    accumulation_steps: int = 1
    seq_len: int | None = None
    task: str | None = None
    own_loss: bool = False
    own_optimizer: bool = False

    @classmethod
    def of(
        cls,
        request: Request,
        info: ProbeInfo,
        *,
        recipe: Recipe,
        batch_size: int,
        accumulation_steps: int,
        seq_len: int | None = None,
    ) -> Plan:
        """The plan for a model that was asked about, trained by a recipe."""
        # The loss of a timm model is not in the model either.
        is_own = isinstance(request, OwnRequest) or request.name.kind in ("factory", "timm")
        entry = None if is_own else request.name.entry
        task = None if is_own else request.task or (entry.task if entry is not None else None)
        return cls(
            recipe=recipe,
            batch_size=batch_size,
            device=info.device_kind,
            accumulation_steps=accumulation_steps,
            seq_len=seq_len,
            task=task,
            own_loss=is_own or task == "contrastive",
            own_optimizer=bool(info.optimizer),
        )

    def loss(self, called: str) -> str:
        """The loss of a batch, by what is called for the forward pass."""
        return f"loss_of({called}, batch)" if self.own_loss else f"{called}(**batch).loss"

    def optimizer(self, model: str) -> str | None:
        """The optimizer of a model; ``None`` where nothing is updated."""
        recipe = self.recipe
        if self.own_optimizer:
            return f"make_optimizer({model})"
        if recipe.optimizer == "none":
            return None
        extra = ", momentum=0.9" if recipe.optimizer == "sgd" else ""
        extra += ", fused=True" if recipe.fused else ""
        trained = f"[p for p in {model}.parameters() if p.requires_grad]" if recipe.lora else f"{model}.parameters()"
        return f"{OPTIMIZERS[recipe.optimizer]}({trained}, lr=LEARNING_RATE{extra})"


def code_for(plan: Plan) -> Code:
    """The plan as code."""
    cut = f"# Cut samples at {plan.seq_len} tokens where you make them: max_length={plan.seq_len}, truncation=True.\n"
    return Code(*((cut if plan.seq_len else "") + write(plan) for write in (_pytorch, _transformers, _lightning)))


def _pytorch(plan: Plan) -> str:
    recipe, batch_size, accumulation_steps = plan.recipe, plan.batch_size, plan.accumulation_steps
    accumulates, scales, optimizer = accumulation_steps > 1, recipe.precision == "fp16", plan.optimizer("model")
    setup = [
        "import torch",
        *_imports(plan),
        "",
        f"BATCH_SIZE = {batch_size}",
        *([f"ACCUMULATION_STEPS = {accumulation_steps}"] if accumulates else []),
        "",
        *(['torch.set_float32_matmul_precision("high")  # TF32'] if recipe.tf32 else []),
        *_model_lines(plan),
        f'model = model.to("{plan.device}"' + (", memory_format=torch.channels_last)" if recipe.channels_last else ")"),
        "model.train()" if recipe.train_mode else "model.eval()",
        *([f"optimizer = {optimizer}"] if optimizer is not None else []),
        *([f'scaler = torch.amp.GradScaler("{plan.device}")'] if scales else []),
        *(["forward = torch.compile(model)"] if recipe.compile else []),
        "",
    ]
    enumerated = "for step, batch in enumerate(make_loader(BATCH_SIZE), 1):"
    moved = f'batch = {{k: v.to("{plan.device}", non_blocking=True) for k, v in batch.items()}}'
    laid_out = [
        "for name in [name for name, value in batch.items() if value.dim() == 4]:",
        "    batch[name] = batch[name].contiguous(memory_format=torch.channels_last)",
    ]
    loss = f"loss = {plan.loss('forward' if recipe.compile else 'model')}"
    loss += " / ACCUMULATION_STEPS" if accumulates else ""
    if recipe.precision in HALF:
        forward = [f'with torch.autocast("{plan.device}", dtype={HALF[recipe.precision]}):', f"    {loss}"]
    else:
        forward = [loss]
    update = ["scaler.step(optimizer)", "scaler.update()"] if scales else ["optimizer.step()"]
    update.append("optimizer.zero_grad(set_to_none=True)")
    if optimizer is None:
        update = ["model.zero_grad(set_to_none=True)"]
    if accumulates:
        update = ["if step % ACCUMULATION_STEPS == 0:", *(f"    {line}" for line in update)]
    loop = [
        moved,
        *(laid_out if recipe.channels_last else []),
        *forward,
        "scaler.scale(loss).backward()" if scales else "loss.backward()",
        *update,
    ]
    head = enumerated if accumulates else "for batch in make_loader(BATCH_SIZE):"
    return "\n".join([*setup, head, *(f"    {line}" for line in loop), ""])


def _transformers(plan: Plan) -> str:
    recipe, batch_size, accumulation_steps = plan.recipe, plan.batch_size, plan.accumulation_steps
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
        *(["use_cpu=True"] if plan.device == "cpu" else []),
    ]
    lines = [
        *(["import torch"] if recipe.channels_last or (recipe.lora and recipe.precision in HALF) else []),
        *_imports(plan, optimizers=False),
        "from transformers import Trainer, TrainingArguments",
        "",
        *_model_lines(plan, checkpointing=False),
        *(["model = model.to(memory_format=torch.channels_last)"] if recipe.channels_last else []),
        "args = TrainingArguments(",
        *(f"    {argument}," for argument in arguments),
        ")",
        "trainer = Trainer(model=model, args=args, train_dataset=dataset)",
        "trainer.train()",
        "",
    ]
    return "\n".join(lines)


def _lightning(plan: Plan) -> str:
    recipe, batch_size, accumulation_steps = plan.recipe, plan.batch_size, plan.accumulation_steps
    precision = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}[recipe.precision]
    called = "self.forward_compiled" if recipe.compile else "self.model"
    module = [
        "def __init__(self, model):",
        "    super().__init__()",
        "    self.model = model",
        *(["    self.forward_compiled = torch.compile(model)"] if recipe.compile else []),
        "",
        "def training_step(self, batch, _):",
        f"    return {plan.loss(called)}",
        "",
        "def configure_optimizers(self):",
        f"    return {plan.optimizer('self.model') or []}",
    ]
    trainer = [
        f'accelerator="{"gpu" if plan.device == "cuda" else plan.device}"',
        "devices=1",
        f'precision="{precision}"',
        *([f"accumulate_grad_batches={accumulation_steps}"] if accumulation_steps > 1 else []),
    ]
    setup = [
        *(['torch.set_float32_matmul_precision("high")  # TF32'] if recipe.tf32 else []),
        *_model_lines(plan),
        *(["model = model.to(memory_format=torch.channels_last)"] if recipe.channels_last else []),
    ]
    lines = [
        "import lightning",
        "import torch",
        *_imports(plan),
        "",
        f"BATCH_SIZE = {batch_size}",
        *(["", *setup] if setup else []),
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


def _imports(plan: Plan, *, optimizers: bool = True) -> list[str]:
    wants_8bit = optimizers and plan.recipe.optimizer == "adamw8bit" and not plan.own_optimizer
    return [
        *(["import bitsandbytes"] if wants_8bit else []),
        *(["from peft import LoraConfig, get_peft_model"] if plan.recipe.lora else []),
    ]


def _model_lines(plan: Plan, *, checkpointing: bool = True) -> list[str]:
    recipe = plan.recipe
    half = HALF.get(recipe.precision)
    lines = []
    if recipe.compile and plan.task in TELLS_PROBLEM_TYPE:
        lines += [
            "# For one class a sample; if the first step has to find out, the second compiles everything again.",
            "if model.config.problem_type is None and model.config.num_labels > 1:",
            '    model.config.problem_type = "single_label_classification"',
        ]
    if recipe.attention == "sdpa":
        lines.append('model.set_attn_implementation("sdpa")')
    if recipe.lora:
        lines += [f"model = model.to({half})  # frozen weights need no more"] if half else []
        kind = PEFT_TASKS.get(plan.task or "")
        for_task = f', task_type="{kind}"' if kind else ""
        config = f'LoraConfig(r={recipe.lora}, target_modules="all-linear"{for_task})'
        if kind is None:
            lines.append("# A head that is new must be named in modules_to_save, or it stays random.")
        lines.append(f"model = get_peft_model(model, {config})")
        if half:
            lines += [
                "for parameter in model.parameters():  # what is trained stays fp32, the head too",
                "    parameter.data = parameter.data.float() if parameter.requires_grad else parameter.data",
            ]
    if recipe.gradient_checkpointing and checkpointing:
        lines.append("model.gradient_checkpointing_enable()")
    if recipe.gradient_checkpointing and recipe.lora:
        lines.append("model.enable_input_require_grads()")
    return lines

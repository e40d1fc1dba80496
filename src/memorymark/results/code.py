"""A recipe as code to paste: plain PyTorch, transformers' Trainer, Lightning. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from memorymark.catalog.tasks import LOSS_OUTSIDE, TASKS, TELLS_PROBLEM_TYPE
from memorymark.documents import Record
from memorymark.question.recipe import QUANTIZED, Recipe, target_names
from memorymark.question.request import OwnRequest, Request
from memorymark.results.probe_info import ProbeInfo
from memorymark.templating import python_code

Library = Literal["pytorch", "transformers", "lightning"]
# The package and the class of each.
OPTIMIZERS = {
    "adamw": ("torch", "optim.AdamW"),
    "adam": ("torch", "optim.Adam"),
    "sgd": ("torch", "optim.SGD"),
    "adafactor": ("torch", "optim.Adafactor"),
    "lion": ("bitsandbytes", "optim.Lion"),
    "muon": ("torch", "optim.Muon"),
    "adamw8bit": ("bitsandbytes", "optim.AdamW8bit"),
    "paged-adamw8bit": ("bitsandbytes", "optim.PagedAdamW8bit"),
}
# peft's names of these tasks, with which it trains a new head in full.
PEFT_TASKS = {
    "causal-lm": "CAUSAL_LM",
    "sft": "CAUSAL_LM",
    "reward": "SEQ_CLS",
    "dpo": "CAUSAL_LM",
    "grpo": "CAUSAL_LM",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
}
HALF = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
WEIGHTS = {**HALF, "fp32": "torch.float32"}
TEMPLATES = "memorymark.results"


@dataclass(frozen=True)
class Code(Record):
    """The same recipe as code for three libraries.

    The user must define: ``model``, a module whose output has a ``loss``; ``make_loader``, a function from a batch
    size to a data loader of dictionaries; ``dataset`` for the Trainer; and ``LEARNING_RATE``. If the loss or the
    optimizer is the user's own, also ``loss_of(model, batch)`` and ``make_optimizer(model)``. Quantized weights are
    loaded from ``MODEL``, a name on Hugging Face or a folder, in place of ``model``.
    """

    pytorch: str
    """Plain PyTorch."""
    transformers: str
    """transformers' Trainer."""
    lightning: str
    """Lightning."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the code must do, on a ``device`` as torch names it.

    Samples are cut to ``seq_len``, or packed into rows of ``row_tokens`` if that is not 0; ``task`` is an id of
    ``catalog.tasks``.
    """

    recipe: Recipe
    batch_size: int
    device: str = "cuda"
    accumulation_steps: int = 1
    seq_len: int | None = None
    task: str | None = None
    row_tokens: int = 0
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
        """Makes the plan for a request's model, trained with a recipe."""
        # The loss of a timm model is not in the model either.
        is_own = isinstance(request, OwnRequest) or request.name.kind in ("factory", "timm")
        entry = None if is_own else request.name.entry
        task = None if is_own else request.task or (entry.task if entry is not None else None)
        kept = recipe.kept_weights(info.weights_dtype)
        if recipe.lora and kept in QUANTIZED:  # maybe only because its config says so
            recipe = replace(recipe, weights=kept)  # type: ignore[arg-type]
        return cls(
            recipe=recipe,
            batch_size=batch_size,
            device=info.device_kind,
            accumulation_steps=accumulation_steps,
            seq_len=seq_len,
            task=task,
            row_tokens=(seq_len or info.sample_sizes["tokens"]) if request.packed else 0,
            own_loss=is_own or task in LOSS_OUTSIDE,
            own_optimizer=bool(info.optimizer),
        )

    @property
    def accumulates(self) -> bool:
        """Whether an optimizer step sees several batches."""
        return self.accumulation_steps > 1

    @property
    def updates(self) -> bool:
        """Whether there is an optimizer at all."""
        return self.own_optimizer or self.recipe.optimizer != "none"

    @property
    def optimizer_class(self) -> str:
        """The recipe's optimizer, by its full name."""
        return ".".join(OPTIMIZERS[self.recipe.optimizer])

    @property
    def imports_bitsandbytes(self) -> bool:
        """Whether the optimizer comes from bitsandbytes."""
        return self.updates and not self.own_optimizer and OPTIMIZERS[self.recipe.optimizer][0] == "bitsandbytes"

    @property
    def offloads_activations(self) -> bool:
        """Whether activations are kept on the host."""
        return self.recipe.offload == "activations"

    @property
    def offloads_optimizer(self) -> bool:
        """Whether weights are updated on the host."""
        return self.recipe.offload == "optimizer"

    @property
    def has_muon(self) -> bool:
        """Whether Muon updates the matrices, beside an AdamW for the rest."""
        return self.recipe.optimizer == "muon" and not self.own_optimizer

    @property
    def several(self) -> bool:
        """Whether several GPUs train together."""
        return self.recipe.gpus > 1

    @property
    def is_copied(self) -> bool:
        """Whether each of several GPUs has the whole model."""
        return self.several and not self.recipe.cuts_weights

    @property
    def whose_batch(self) -> str:
        """The end of the line that sets the batch size, which says what trains on it."""
        if self.recipe.tensor_parallel > 1:
            return f"  # of each {self.recipe.tensor_parallel} GPUs that share layers"
        return "  # of each GPU" if self.several else ""

    @property
    def data_mesh(self) -> str:
        """The mesh of GPUs with batches of their own, among which weights are cut."""
        if self.recipe.tensor_parallel == 1:
            return "mesh"
        return 'mesh["replicate", "shard"]' if self.recipe.strategy == "hsdp" else 'mesh["shard"]'

    @property
    def needs_plain_loop(self) -> str:
        """Why neither transformers' Trainer nor Lightning's trains this way; empty if they do."""
        if self.several:
            return "spreads a model over GPUs in just this way"
        if self.recipe.optimizer_in_backward:
            return "updates weights in the backward pass"
        if self.offloads_optimizer:
            return "updates weights on the host without DeepSpeed"
        return "trains with two optimizers, which Muon needs" if self.has_muon else ""

    @property
    def half_dtype(self) -> str | None:
        """The full name of the 16-bit type that the recipe computes in, or ``None``."""
        return HALF.get(self.recipe.precision)

    @property
    def is_quantized(self) -> bool:
        """Whether frozen weights are loaded in 8 or 4 bits."""
        return self.recipe.weights in QUANTIZED

    @property
    def weights_dtype(self) -> str | None:
        """The full name of the type that the model is cast to, or ``None``."""
        return WEIGHTS.get(self.recipe.kept_weights(""))

    @property
    def keeps_half_weights(self) -> bool:
        """Whether the weights beside the adapters are in 16 bits, those of a new head too."""
        return self.weights_dtype in HALF.values()

    @property
    def casts_inputs(self) -> bool:
        """Whether inputs must be cast to the type of the weights, because no autocast does it."""
        return self.half_dtype is None and self.recipe.weights in HALF

    @property
    def lightning_type(self) -> str:
        """Lightning's name of the type that is computed in without autocast."""
        return {"bf16": "bf16-true", "fp16": "16-true"}.get(self.recipe.weights, "32-true")

    @property
    def auto_class(self) -> str:
        """The class of transformers that loads the model."""
        return TASKS[self.task].auto_class if self.task else "AutoModelForCausalLM"

    @property
    def attention_name(self) -> str:
        """What transformers calls the attention."""
        return "flash_attention_2" if self.recipe.attention == "flash" else self.recipe.attention

    @property
    def joins_rows(self) -> bool:
        """Whether a batch of packed rows is one long row, as flash attention wants it and TRL makes it."""
        return bool(self.row_tokens) and self.recipe.attention == "flash"

    @property
    def lora_names(self) -> list[str]:
        """The names of the layers that get adapters."""
        return target_names(self.recipe.lora_targets)

    @property
    def checkpoints(self) -> bool:
        """Whether activations are computed again in the backward pass."""
        return self.recipe.gradient_checkpointing != "none"

    @property
    def checkpoints_selectively(self) -> bool:
        """Whether only the cheap ones are."""
        return self.recipe.gradient_checkpointing == "selective"

    @property
    def scales_loss(self) -> bool:
        """Whether the loss must be scaled, so that gradients do not underflow."""
        return self.recipe.precision == "fp16"

    @property
    def peft_task(self) -> str | None:
        """peft's name of the task, or ``None``."""
        return PEFT_TASKS.get(self.task) if self.task else None

    @property
    def must_tell_problem_type(self) -> bool:
        """Whether the model would set its problem type in the first step, and be compiled again."""
        return self.recipe.compile and self.task in TELLS_PROBLEM_TYPE


def code_for(plan: Plan) -> Code:
    """Renders the plan as code for each library."""
    return Code(
        pytorch=pytorch_code(plan),
        transformers=python_code(TEMPLATES, "transformers", plan=plan),
        lightning=python_code(TEMPLATES, "lightning", plan=plan),
    )


def pytorch_code(plan: Plan, *, torch_is_imported: bool = False) -> str:
    """Renders the plan as plain PyTorch, on its own or for a script that imports torch."""
    return python_code(TEMPLATES, "pytorch", plan=plan, torch_is_imported=torch_is_imported)

"""How a workload is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import not_
from typing import Any, Literal, get_args

from memorymark.checks.choices import Choice
from memorymark.question.limits import NO_LIMIT
from memorymark.question.options import group, option, settle_options, unusual

Precision = Literal["fp32", "bf16", "fp16"]
Optimizer = Literal["adamw", "adam", "sgd", "adafactor", "adamw8bit", "none"]
Attention = Literal["auto", "eager", "sdpa"]
Loss = Literal["model", "mean", "chunked"]
AllocatorKind = Literal["default", "expandable"]

PRECISION = Choice(
    "precision",
    get_args(Precision),
    {
        **dict.fromkeys(("float32", "float", "f32", "single", "full", "32-true"), "fp32"),
        **dict.fromkeys(("bfloat16", "bfloat", "brain float 16", "bf16-mixed"), "bf16"),
        **dict.fromkeys(("float16", "half", "f16", "16-mixed", "fp16-mixed"), "fp16"),
    },
)
OPTIMIZER = Choice(
    "optimizer",
    get_args(Optimizer),
    {
        **dict.fromkeys(("adamw_torch", "adamw_hf"), "adamw"),
        **dict.fromkeys(("sgd_momentum", "momentum"), "sgd"),
        **dict.fromkeys(("adamw_bnb_8bit", "bnb_adamw8bit", "8bit_adamw", "bitsandbytes.optim.AdamW8bit"), "adamw8bit"),
        "no optimizer": "none",
    },
)
ATTENTION = Choice(
    "attention",
    get_args(Attention),
    {"default": "auto", "scaled_dot_product_attention": "sdpa", "scaled_dot_product": "sdpa"},
)
LOSS = Choice("loss", get_args(Loss), dict.fromkeys(("liger", "fused_linear_cross_entropy"), "chunked"))
LOSS_WORDS = {"mean": "mean of the logits as loss", "chunked": "chunked loss"}
ALLOCATOR = Choice("allocator", get_args(AllocatorKind), {"expandable_segments": "expandable", "segments": "default"})

FUSED_OPTIMIZERS = ("adamw", "adam", "sgd")
OPTIMIZER_NAMES = {
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
    "adafactor": "Adafactor",
    "adamw8bit": "8-bit AdamW",
    "none": "no optimizer",
}
# Bytes of optimizer state per parameter.
STATE_BYTES = {"adamw": 8, "adam": 8, "sgd": 4, "adamw8bit": 2, "adafactor": 0, "none": 0}


@group("recipe")
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained: everything about a step except the model, the sample's shape and the batch size.

    The default is a full step as most scripts run it: fp32, AdamW, train mode, the model's own loss.
    ``Recipe(train_mode=False, loss="mean", optimizer="none")`` reproduces the published table.
    """

    precision: Precision = option(
        "fp32",
        "Autocast precision.",
        choices=PRECISION,
        labels={"fp32": "Full", "bf16": "Mixed", "fp16": "Mixed"},
    )
    optimizer: Optimizer = option("adamw", "Optimizer.", choices=OPTIMIZER, labels=OPTIMIZER_NAMES)
    fused: bool = option(
        False,
        "Use the fused version of the optimizer: one kernel updates all weights.",
        title="Fused optimizer",
        rare=True,
        needs={"optimizer": FUSED_OPTIMIZERS},
    )
    lora: int = option(
        0,
        "Train LoRA adapters of this rank; 0 trains the model itself.",
        title="LoRA rank",
        rare=True,
        metavar="RANK",
        minimum=0,
        maximum=NO_LIMIT,
        words=lambda rank: f"LoRA rank {rank}",
    )
    gradient_checkpointing: bool = option(
        False,
        "Recompute activations in the backward pass: less memory, more time.",
        words=lambda _: "gradient checkpointing",
    )
    compile: bool = option(
        False,
        "Run the model under torch.compile.",
        title="torch.compile",
        rare=True,
        measured_only=True,
        words=lambda _: "torch.compile",
    )
    attention: Attention = option(
        "auto",
        "How transformers computes attention; auto uses the model's default, SDPA for most models.",
        choices=ATTENTION,
        labels={"auto": "Default", "sdpa": "SDPA", "eager": "Eager"},
        rare=True,
        words=lambda name: f"{'SDPA' if name == 'sdpa' else name} attention",
    )
    tf32: bool = option(False, "Use TF32 for fp32 matrix products.", title="TF32", rare=True, words=lambda _: "TF32")
    channels_last: bool = option(
        False,
        "Use the NHWC memory format, for image models.",
        title="channels_last",
        rare=True,
        sample_units=("pixels",),
        words=lambda _: "channels_last",
    )
    accumulation_steps: int = option(
        1,
        "Batches per optimizer step.",
        called="accumulate",
        rare=True,
        unit="batches",
        metavar="STEPS",
        minimum=1,
        maximum=NO_LIMIT,
        words=lambda steps: f"{steps} accumulation steps",
    )
    train_mode: bool = option(
        True,
        "Train in evaluation mode: dropout off, as in the published table.",
        called="eval_mode",
        title="Evaluation mode",
        rare=True,
        stored=not_,
        told=not_,
        words=lambda _: "eval mode",
    )
    loss: Loss = option(
        "model",
        "The model's own loss; the mean of its logits; or its own in chunks, without ever holding all logits.",
        choices=LOSS,
        labels={"model": "Its own", "mean": "Mean of logits", "chunked": "Chunked"},
        rare=True,
        words=LOSS_WORDS.__getitem__,
    )
    allocator: AllocatorKind = option(
        "default",
        "How torch's CUDA allocator works: expandable is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        choices=ALLOCATOR,
        labels={"default": "Default", "expandable": "Expandable segments"},
        rare=True,
        words=lambda _: "expandable segments",
    )

    def __post_init__(self) -> None:
        settle_options(self)

    def least_bytes(self, parameters: int) -> int:
        """Returns the least memory that weights, gradients and optimizer state take, however small the batch."""
        if self.lora:
            return parameters * (2 if self.precision in ("bf16", "fp16") else 4)
        return parameters * (4 + 4 + STATE_BYTES[self.optimizer])

    def describe(self, optimizer: str = "", weights_dtype: str = "") -> str:
        """Describes the recipe in a few words, without defaults: ``bf16, AdamW, checkpointing``.

        ``optimizer`` names the optimizer that replaces the recipe's, ``weights_dtype`` the type of the weights, if
        known.
        """
        fused = "fused " if self.fused else ""
        words = [*self._precision_words(weights_dtype), optimizer or f"{fused}{OPTIMIZER_NAMES[self.optimizer]}"]
        words += unusual(self)
        return ", ".join(words)

    def _precision_words(self, weights_dtype: str) -> list[str]:
        """Autocast keeps weights in fp32 and LoRA converts frozen ones; a caller's own model may use other types."""
        if self.lora or weights_dtype in ("", "fp32"):
            return [self.precision]
        autocast = [f"{self.precision} autocast"] if self.precision not in ("fp32", weights_dtype) else []
        return [f"{weights_dtype} weights", *autocast]

    def to_dict(self) -> dict[str, Any]:
        """Returns the recipe in JSON types."""
        return asdict(self)

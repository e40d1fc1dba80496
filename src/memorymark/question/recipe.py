"""How a workload is trained."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from operator import not_
from typing import Any, get_args

from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.limits import LONGEST_NAME, NO_LIMIT
from memorymark.question.options import group, option, options_of, settle_options, unusual
from memorymark.question.recipe_choices import (
    ALLOCATOR,
    ATTENTION,
    ATTENTION_WORDS,
    CHECKPOINTING,
    LORA_VARIANT,
    LOSS,
    LOSS_WORDS,
    OFFLOAD,
    OPTIMIZER,
    OPTIMIZER_VARIANT,
    PRECISION,
    WEIGHTS,
    AllocatorKind,
    Attention,
    Checkpointing,
    LoraVariant,
    Loss,
    Offload,
    Optimizer,
    OptimizerVariant,
    Precision,
    Weights,
)
from memorymark.question.several_gpus import SeveralGpus, settle_several
from memorymark.suggestions import Proposal, without

FUSED_OPTIMIZERS = ("adamw", "adam", "sgd")
FOREACH_OPTIMIZERS = (*FUSED_OPTIMIZERS, "adafactor")
OPTIMIZER_NAMES = {
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
    "adafactor": "Adafactor",
    "lion": "Lion",
    "muon": "Muon",
    "adamw8bit": "8-bit AdamW",
    "paged-adamw8bit": "paged 8-bit AdamW",
    "none": "no optimizer",
}
# How many tensors of a weight's type the optimizer keeps for it on the GPU, at least. The 8-bit one keeps two bytes
# whatever the type; Muon keeps twice as much for the weights that AdamW updates.
STATES = {"adamw": 2, "adam": 2, "sgd": 1, "lion": 1, "muon": 1}
EIGHT_BIT_STATE_BYTES = 2
WEIGHT_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "nf4": 0.5}
QUANTIZED = ("int8", "nf4")
ALL_LINEAR, ATTENTION_ONLY = "all-linear", "attention"
LORA_RANK = 16
LAYER_NAME = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*", re.ASCII)


@group("recipe")
@dataclass(frozen=True, kw_only=True)
class Recipe(SeveralGpus):
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
    weights: Weights = option(
        "auto",
        "The type weights are kept in; auto: fp32 if they are trained, the autocast type if LoRA freezes them.",
        choices=WEIGHTS,
        labels={"auto": "Default", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "int8": "8-bit", "nf4": "4-bit"},
        rare=True,
    )
    optimizer: Optimizer = option("adamw", "Optimizer.", choices=OPTIMIZER, labels=OPTIMIZER_NAMES)
    fused: bool = option(
        False,
        "Use the fused version of the optimizer: one kernel updates all weights.",
        title="Fused optimizer",
        rare=True,
        needs={"optimizer": FUSED_OPTIMIZERS},
    )
    optimizer_variant: OptimizerVariant = option(
        "auto",
        "Update weights together (foreach) or one by one (forloop); auto is torch's choice.",
        choices=OPTIMIZER_VARIANT,
        labels={"auto": "Default", "foreach": "foreach", "forloop": "for-loop"},
        rare=True,
        needs={"optimizer": FOREACH_OPTIMIZERS, "fused": (False,)},
        words=lambda name: {"foreach": "foreach updates", "forloop": "for-loop updates"}[name],
    )
    optimizer_in_backward: bool = option(
        False,
        "Update each parameter in the backward pass and free its gradient at once.",
        rare=True,
        needs={
            "optimizer": tuple(name for name in get_args(Optimizer) if name != "none"),
            "accumulate": (1,),
            "precision": ("fp32", "bf16"),
        },
        words=lambda _: "optimizer in the backward pass",
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
    lora_targets: str = option(
        ALL_LINEAR,
        "The layers that get adapters: all-linear, attention, or names as in peft, separated by commas.",
        title="LoRA targets",
        rare=True,
        metavar="NAMES",
        longest=LONGEST_NAME,
        words=lambda names: f"adapters on {names.replace(',', ', ')}",
    )
    lora_variant: LoraVariant = option(
        "lora",
        "The kind of adapter: plain LoRA, DoRA, or rank-stabilized LoRA.",
        title="LoRA variant",
        choices=LORA_VARIANT,
        labels={"lora": "LoRA", "dora": "DoRA", "rslora": "rsLoRA"},
        rare=True,
        words=lambda name: {"dora": "DoRA", "rslora": "rsLoRA"}[name],
    )
    gradient_checkpointing: Checkpointing = option(
        "none",
        "Recompute activations in the backward pass: less memory, more time; selective: only the cheap ones.",
        choices=CHECKPOINTING,
        labels={"none": "No", "full": "Full", "selective": "Selective"},
        alone="full",
        words=lambda kind: {"full": "gradient checkpointing", "selective": "selective checkpointing"}[kind],
    )
    offload: Offload = option(
        "none",
        "Keep activations in the host's memory, or run the optimizer there: less memory on the GPU, slower steps.",
        choices=OFFLOAD,
        labels={"none": "Nothing", "activations": "Activations", "optimizer": "Optimizer"},
        rare=True,
        needs={"compile": (False,)},
        choice_needs={
            "optimizer": {
                "optimizer": FUSED_OPTIMIZERS,  # torch can fuse them on a CPU too
                "fused": (False,),
                "optimizer_variant": ("auto",),
                "optimizer_in_backward": (False,),
                "accumulate": (1,),
                "precision": ("fp32", "bf16"),
            }
        },
        words=lambda what: f"{what} offloaded",
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
        "How transformers computes attention; auto is the model's default, mostly SDPA; flash is flash-attn.",
        choices=ATTENTION,
        labels={"auto": "Default", "sdpa": "SDPA", "eager": "Eager", "flash": "FlashAttention"},
        rare=True,
        words=ATTENTION_WORDS.__getitem__,
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
    """Train with dropout on; ``false`` is evaluation mode."""
    loss: Loss = option(
        "model",
        "The model's own loss, the mean of its logits, or its own in chunks, which never hold all logits at once.",
        choices=LOSS,
        labels={"model": "Its own", "mean": "Mean of logits", "chunked": "Chunked"},
        rare=True,
        words=LOSS_WORDS.__getitem__,
    )
    keep_outputs: bool = option(
        False,
        "Keep the model's outputs until the next forward pass, as `outputs = model(**batch)` in a loop does.",
        rare=True,
        words=lambda _: "outputs kept",
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
        object.__setattr__(self, "lora_targets", ",".join(target_names(self.lora_targets)))
        settle_several(self)
        self._check_weights()
        self._check_adapters()
        self._check_attention()

    @property
    def half_precision(self) -> bool:
        """Whether it computes in 16 bits."""
        return self.precision in ("bf16", "fp16")

    @property
    def trains_half_weights(self) -> bool:
        """Whether weights are trained in 16 bits, and with them gradients and optimizer state."""
        return self.weights in ("bf16", "fp16") and not self.lora

    def kept_weights(self, built: str) -> str:
        """Returns the type that weights are kept in, if the model comes with those of the type ``built``.

        Frozen weights need no precision for their updates, so with bf16 or fp16 they are kept in that type, which
        halves them. Quantized ones stay as they come.
        """
        if self.weights != "auto":
            return self.weights
        return self.precision if self.lora and self.half_precision and built not in QUANTIZED else built

    @property
    def can_accumulate(self) -> bool:
        """Whether gradients last until the end of the backward pass, so that they can be summed up over batches."""
        return not self.optimizer_in_backward and self.offload != "optimizer"

    def least_bytes(self, parameters: int) -> int:
        """Returns the least memory that weights, gradients and optimizer state take on a GPU, whatever the batch."""
        weight = WEIGHT_BYTES[self.kept_weights("fp32")]
        # ZeRO-2 gathers all before the backward pass begins.
        gathered = (2.0 if self.half_precision else weight) / self.tensor_parallel if self.strategy == "zero2" else 0.0
        if self.lora or self.offload == "optimizer":
            return int(parameters * (weight / self.parts_of_weights + gathered))
        gradient = 0.0 if self.optimizer_in_backward else weight
        state = EIGHT_BIT_STATE_BYTES if self.optimizer == "adamw8bit" else STATES.get(self.optimizer, 0) * weight
        parts = (weight + gradient) / self.parts_of_weights + state / self.parts_of_state
        return int(parameters * max(parts, parts - gradient / self.parts_of_weights + gathered))

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
        if self.weights != "auto":
            return [f"{self.weights} weights", *([f"{self.precision} autocast"] if self.half_precision else [])]
        if weights_dtype in ("", "fp32") or (self.lora and weights_dtype not in QUANTIZED):
            return [self.precision]
        autocast = [f"{self.precision} autocast"] if self.precision not in ("fp32", weights_dtype) else []
        return [f"{weights_dtype} weights", *autocast]

    def _check_weights(self) -> None:
        """Raises on a type that weights cannot be trained in."""
        if self.weights in QUANTIZED and not self.lora:
            raise self._no_weights(
                Message(
                    "{weights:{given}} freezes the weights, so it needs adapters; add {lora:{rank}}.",
                    given=self.weights,
                    rank=LORA_RANK,
                ),
                Proposal(f"LoRA rank {LORA_RANK}", {"lora": LORA_RANK}),
            )
        if self.weights in ("bf16", "fp16") and self.half_precision and self.weights != self.precision:
            raise self._no_weights(
                Message(
                    "{weights:{given}} and {precision:{other}} are two 16-bit types; use one for both.",
                    given=self.weights,
                    other=self.precision,
                ),
                Proposal(f"{self.precision} weights", {"weights": self.precision}),
            )
        if self.precision == "fp16" and self.trains_half_weights:
            raise self._no_weights(
                Message(
                    "{precision:fp16} scales the loss, and torch refuses to unscale the gradients of {weights:fp16}; "
                    "drop one of them, or use bf16."
                )
            )

    def _no_weights(self, what: Message, *proposals: Proposal) -> UsageError:
        return UsageError(
            what,
            code="conflict",
            field="weights",
            given=self.weights,
            proposals=[*proposals, without("weights", usual="auto")],
        )

    def _check_adapters(self) -> None:
        """Raises on options of adapters if there are none."""
        for name in ("lora_targets", "lora_variant"):
            declared = options_of(self)[name]
            given = declared.value_of(self)
            if given != declared.default and not self.lora:
                raise UsageError(
                    Message(
                        "{option} is for adapters; add {lora:{rank}}, or drop it.",
                        option=OptionName(name),
                        rank=LORA_RANK,
                    ),
                    code="not_applicable",
                    field=name,
                    given=given,
                    proposals=[Proposal(f"LoRA rank {LORA_RANK}", {"lora": LORA_RANK})],
                )

    def _check_attention(self) -> None:
        """Raises on FlashAttention in 32 bits, for which it has no kernels."""
        if self.attention == "flash" and not (self.half_precision or self.weights in ("bf16", "fp16")):
            raise UsageError(
                Message("{attention:flash} computes in 16 bits only; add {precision:bf16}, or drop it."),
                code="conflict",
                field="attention",
                given="flash",
                proposals=[Proposal("bf16 autocast", {"precision": "bf16"}), without("attention", usual="auto")],
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the recipe in JSON types."""
        return asdict(self)


def target_names(targets: str) -> list[str]:
    """Returns the names in a list of LoRA targets; raises on one that cannot be a layer's."""
    names = [name.strip() for name in targets.split(",")]
    for name in names:
        if not LAYER_NAME.fullmatch(name):
            raise UsageError(
                Message("{lora_targets} must be all-linear, attention or names of layers, not {given!r}.", given=name),
                code="malformed",
                field="lora_targets",
                given=targets,
                proposals=[without("lora_targets", usual=ALL_LINEAR)],
            )
    return list(dict.fromkeys(names))

"""How a workload is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from memorymark.choices import Choice
from memorymark.errors import UsageError
from memorymark.type_checks import settle_types

Precision = Literal["fp32", "bf16", "fp16"]
Optimizer = Literal["adamw", "adam", "sgd", "adafactor", "adamw8bit", "none"]
Attention = Literal["auto", "eager", "sdpa"]
Loss = Literal["model", "mean"]

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
LOSS = Choice("loss", get_args(Loss))
CHOICES = {choice.name: choice for choice in (PRECISION, OPTIMIZER, ATTENTION, LOSS)}

FUSED_OPTIMIZERS = ("adamw", "adam", "sgd")
# What a parameter takes beside its weight and gradient, by optimizer.
STATE_BYTES = {"adamw": 8, "adam": 8, "sgd": 4, "adamw8bit": 2, "adafactor": 0, "none": 0}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about a training step that is not the model, the shape of a sample or the batch size.

    The default is a full step as most scripts run it: fp32, AdamW, train mode, the model's own loss.
    ``Recipe(train_mode=False, loss="mean", optimizer="none")`` is the recipe of the published table.
    ``attention`` is how transformers computes it; ``auto`` is its own choice, SDPA for most models.
    ``lora`` is the rank of LoRA's adapters, which are trained instead of the model's own weights; 0 trains those.
    """

    precision: Precision = "fp32"
    optimizer: Optimizer = "adamw"
    fused: bool = False
    gradient_checkpointing: bool = False
    train_mode: bool = True
    loss: Loss = "model"
    accumulation_steps: int = 1
    compile: bool = False
    tf32: bool = False
    channels_last: bool = False
    lora: int = 0
    attention: Attention = "auto"

    def __post_init__(self) -> None:
        settle_types(self)
        for name, choice in CHOICES.items():
            object.__setattr__(self, name, choice.read(getattr(self, name)))
        if self.accumulation_steps < 1:
            raise UsageError(f"--accumulate must be 1 or more steps, not {self.accumulation_steps}.")
        if self.lora < 0:
            raise UsageError(f"--lora must be a rank of 1 or more, or 0 for none, not {self.lora}.")
        if self.fused and self.optimizer not in FUSED_OPTIMIZERS:
            raise UsageError(
                f"{self.optimizer} has no fused version; use one of {', '.join(FUSED_OPTIMIZERS)} or drop --fused."
            )

    def least_bytes(self, parameters: int) -> int:
        """What weights, gradients and the optimizer's state take at least, however small the batch."""
        if self.lora:
            return parameters * (2 if self.precision in ("bf16", "fp16") else 4)
        return parameters * (4 + 4 + STATE_BYTES[self.optimizer])

    def describe(self, optimizer: str = "", weights_dtype: str = "") -> str:
        """The recipe in a few words, what is usual left out: ``bf16, AdamW, checkpointing``.

        ``optimizer`` is the name of one that is used in place of the recipe's, ``weights_dtype`` the type of the
        weights where that is known.
        """
        names = {
            "adamw": "AdamW",
            "adam": "Adam",
            "sgd": "SGD",
            "adafactor": "Adafactor",
            "adamw8bit": "8-bit AdamW",
            "none": "no optimizer",
        }
        words = [
            *self._precision_words(weights_dtype),
            optimizer or ("fused " if self.fused else "") + names[self.optimizer],
        ]
        words += [f"LoRA rank {self.lora}"] if self.lora else []
        words += ["gradient checkpointing"] if self.gradient_checkpointing else []
        words += ["torch.compile"] if self.compile else []
        words += [f"{'SDPA' if self.attention == 'sdpa' else 'eager'} attention"] if self.attention != "auto" else []
        words += ["TF32"] if self.tf32 else []
        words += ["channels_last"] if self.channels_last else []
        words += [f"{self.accumulation_steps} accumulation steps"] if self.accumulation_steps > 1 else []
        words += ["eval mode"] if not self.train_mode else []
        words += ["mean of the logits as loss"] if self.loss == "mean" else []
        return ", ".join(words)

    def _precision_words(self, weights_dtype: str) -> list[str]:
        """Autocast leaves weights in fp32, and LoRA puts frozen ones into its type; a model of one's own may differ."""
        if self.lora or weights_dtype in ("", "fp32"):
            return [self.precision]
        autocast = [f"{self.precision} autocast"] if self.precision not in ("fp32", weights_dtype) else []
        return [f"{weights_dtype} weights", *autocast]

    def to_dict(self) -> dict[str, Any]:
        """The recipe as JSON types."""
        return asdict(self)

"""Language models and how they are fine-tuned: the cases of benchmarks/llm.py.

A case is a question as it is asked on the command line, the sizes whose peaks are compared, and a capacity in GiB under
which the largest batch is compared. ``LOOKED_AT`` were measured while the rules were made; ``HELD_OUT`` and ``SECOND``
after they were frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BF16: dict[str, Any] = {"weights": "bf16"}
LORA: dict[str, Any] = {"precision": "bf16", "lora": 16}
QLORA: dict[str, Any] = {**LORA, "weights": "nf4"}
FULL: dict[str, Any] = {"precision": "bf16"}
CHECKPOINTS: dict[str, Any] = {"gradient_checkpointing": True}
SELECTIVE: dict[str, Any] = {"gradient_checkpointing": "selective"}
CHUNKED: dict[str, Any] = {"loss": "chunked"}
EIGHT_BIT: dict[str, Any] = {"optimizer": "adamw8bit"}
ON_ATTENTION: dict[str, Any] = {"lora_targets": "attention"}


@dataclass(frozen=True)
class Case:
    """A fine-tuning: a model of the catalog, the length of its samples, and options by their names.

    If it is about the ``longest`` text, the batch is one text, its sizes count ``seq_len`` tokens, and so does what is
    the largest batch of other cases.
    """

    name: str
    model: str
    seq_len: int
    options: dict[str, Any]
    cap_gib: float
    sizes: tuple[int, ...] = (1, 2, 4)
    longest: bool = False

    @property
    def key(self) -> str:
        """What tells it from other cases."""
        return f"{self.model} {self.name} {self.seq_len}"


LOOKED_AT = [
    # All weights are trained
    Case("full bf16", "qwen2.5-0.5b", 512, BF16, 22, (1, 4, 16)),
    Case("full bf16", "llama-3.2-1b", 2048, BF16, 44),
    Case("full bf16, 8-bit AdamW", "llama-3.2-3b", 1024, {**BF16, "optimizer": "adamw8bit"}, 44),
    Case("full bf16, 8-bit AdamW", "llama-3.1-8b", 512, {**BF16, "optimizer": "adamw8bit"}, 79, (1, 2)),
    Case(
        "full bf16, Adafactor, checkpointing", "qwen3-4b", 2048, {**BF16, **CHECKPOINTS, "optimizer": "adafactor"}, 44
    ),
    Case("full mixed, checkpointing", "qwen2.5-1.5b", 4096, {**FULL, **CHECKPOINTS}, 44),
    Case("full mixed, paged 8-bit AdamW", "llama-3.2-1b", 512, {**FULL, "optimizer": "paged-adamw8bit"}, 22),
    Case("full mixed", "gemma-2-2b", 1024, FULL, 79, (1, 2)),
    Case("full bf16, Lion", "smollm2-1.7b", 1024, {**BF16, "optimizer": "lion"}, 44),
    Case("full bf16, Muon", "llama-3.2-1b", 1024, {**BF16, "optimizer": "muon"}, 44),
    Case("full bf16, updates in backward", "llama-3.2-3b", 1024, {**BF16, "optimizer_in_backward": True}, 44),
    Case("full bf16, selective checkpointing", "qwen2.5-1.5b", 4096, {**BF16, **SELECTIVE}, 44),
    Case("full bf16, outputs kept", "qwen3-1.7b", 1024, {**BF16, "keep_outputs": True}, 44),
    # Long samples, chunked loss
    Case("full bf16, chunked loss", "llama-3.2-1b", 8192, {**BF16, **CHUNKED}, 79, (1, 2)),
    Case(
        "full bf16, chunked loss, checkpointing",
        "qwen2.5-0.5b",
        32768,
        {**BF16, **CHECKPOINTS, **CHUNKED},
        44,
        (1, 2),
    ),
    Case("LoRA, chunked loss, checkpointing", "llama-3.1-8b", 32768, {**LORA, **CHECKPOINTS, **CHUNKED}, 44, (1,)),
    # LoRA
    Case("LoRA", "llama-3.1-8b", 1024, LORA, 44),
    Case("LoRA on attention", "mistral-7b", 2048, {**LORA, **ON_ATTENTION}, 44, (1, 2)),
    Case("LoRA, checkpointing", "qwen3-8b", 8192, {**LORA, **CHECKPOINTS}, 79, (1, 2)),
    Case("DoRA", "llama-3.2-1b", 1024, {**LORA, "lora_variant": "dora"}, 22),
    Case("LoRA over fp32", "qwen2.5-1.5b", 1024, {**LORA, "weights": "fp32"}, 44),
    # Quantized
    Case("QLoRA", "llama-3.1-8b", 1024, QLORA, 22, (1, 2)),
    Case("QLoRA, checkpointing", "llama-3.1-8b", 4096, {**QLORA, **CHECKPOINTS}, 22, (1,)),
    Case(
        "QLoRA, chunked loss, checkpointing",
        "qwen2.5-7b",
        16384,
        {**QLORA, **CHECKPOINTS, **CHUNKED},
        44,
        (1, 2),
    ),
    Case("QLoRA, paged 8-bit AdamW", "llama-3.2-3b", 1024, {**QLORA, "optimizer": "paged-adamw8bit"}, 22),
    Case("LoRA over int8", "mistral-7b", 1024, {**LORA, "weights": "int8"}, 44, (1, 2)),
    # Mixtures of experts
    Case("MoE, LoRA on attention", "deepseek-v2-lite", 1024, {**LORA, **ON_ATTENTION}, 79, (1, 2)),
    Case(
        "MoE, LoRA on attention, checkpointing",
        "gpt-oss-20b",
        2048,
        {**LORA, **CHECKPOINTS, **ON_ATTENTION},
        79,
        (1, 2),
    ),
    # Other tasks
    Case("SFT", "llama-3.2-1b", 2048, {**BF16, "task": "sft"}, 44),
    Case("reward model", "qwen2.5-1.5b", 1024, {**BF16, "task": "reward"}, 44),
    Case("DPO", "qwen2.5-0.5b", 1024, {**BF16, "task": "dpo"}, 44),
    Case("DPO, LoRA, checkpointing", "llama-3.2-3b", 1024, {**LORA, **CHECKPOINTS, "task": "dpo"}, 44),
]
HELD_OUT = [
    Case("full bf16", "olmo-2-1b", 1024, BF16, 22, (1, 2)),
    Case("full bf16, 8-bit AdamW, checkpointing", "gemma-3-1b", 2048, {**BF16, **CHECKPOINTS, **EIGHT_BIT}, 22, (1, 2)),
    Case("full bf16, 8-bit AdamW", "phi-2", 1024, {**BF16, **EIGHT_BIT}, 44, (1, 2)),
    Case(
        "full bf16, Lion, selective checkpointing",
        "smollm3-3b",
        2048,
        {**BF16, **SELECTIVE, "optimizer": "lion"},
        44,
        (1, 2),
    ),
    Case("full mixed fp16, fused AdamW", "pythia-1.4b", 1024, {"precision": "fp16", "fused": True}, 44, (1, 2)),
    Case("full bf16, 4 batches a step", "r1-distill-qwen-1.5b", 512, {**BF16, "accumulate": 4}, 22, (1, 2)),
    Case("full bf16, eager attention", "smollm2-360m", 1024, {**BF16, "attention": "eager"}, 22, (1, 2)),
    Case("full bf16, expandable segments", "qwen3-0.6b", 1024, {**BF16, "allocator": "expandable"}, 22, (1, 2)),
    Case("LoRA, chunked loss, checkpointing", "gemma-3-1b", 16384, {**LORA, **CHECKPOINTS, **CHUNKED}, 22, (1,)),
    Case("rsLoRA", "phi-3-mini", 2048, {**LORA, "lora_variant": "rslora"}, 44, (1, 2)),
    Case("LoRA, checkpointing", "gemma-2-9b", 1024, {**LORA, **CHECKPOINTS}, 44, (1, 2)),
    Case(
        "MoE, LoRA, chunked loss, checkpointing",
        "deepseek-v2-lite",
        4096,
        {**LORA, **CHECKPOINTS, **CHUNKED},
        44,
        (1, 2),
    ),
    Case("QLoRA, checkpointing", "olmo-2-7b", 2048, {**QLORA, **CHECKPOINTS}, 22, (1, 2)),
    Case("QLoRA with DoRA", "qwen2.5-1.5b", 512, {**QLORA, "lora_variant": "dora"}, 22, (1, 2)),
    Case("LoRA over int8, checkpointing", "qwen2.5-3b", 1024, {**LORA, **CHECKPOINTS, "weights": "int8"}, 22, (1, 2)),
    Case("SFT, LoRA, chunked loss", "qwen3-4b", 2048, {**LORA, **CHUNKED, "task": "sft"}, 44, (1, 2)),
    Case("reward model, LoRA", "llama-3.2-3b", 512, {**LORA, "task": "reward"}, 22, (1, 2)),
    Case("DPO, QLoRA", "qwen3-1.7b", 512, {**QLORA, "task": "dpo"}, 22, (1, 2)),
]

# Packing, GRPO and the longest text, of which the sets above have none; predicted before they were measured.
PACKED: dict[str, Any] = {"packed": True, "attention": "flash"}
SECOND = [
    Case("packed, flash, LoRA", "qwen2.5-1.5b", 4096, {**LORA, **PACKED, "mean_tokens": 700}, 22, (1, 2)),
    Case("packed, flash, full bf16, chunked loss", "llama-3.2-1b", 8192, {**BF16, **PACKED, **CHUNKED}, 30, (1, 2)),
    Case(
        "packed, flash, QLoRA, checkpointing, SFT",
        "llama-3.2-3b",
        4096,
        {**QLORA, **PACKED, **CHECKPOINTS, "task": "sft", "mean_tokens": 1500},
        16,
        (1, 2),
    ),
    Case("DPO, QLoRA, checkpointing", "llama-3.1-8b", 512, {**QLORA, **CHECKPOINTS, "task": "dpo"}, 22, (1, 2)),
    Case("GRPO, LoRA", "qwen2.5-1.5b", 1024, {**LORA, "task": "grpo"}, 22, (1, 4)),
    Case(
        "GRPO, full bf16, checkpointing, reference",
        "llama-3.2-1b",
        768,
        {**BF16, **CHECKPOINTS, "task": "grpo", "reference": "kept", "completion_tokens": 256},
        30,
        (2, 4),
    ),
    Case(
        "QLoRA, chunked loss, checkpointing, longest",
        "llama-3.1-8b",
        256,
        {**QLORA, **CHECKPOINTS, **CHUNKED},
        12,
        (8, 16),
        longest=True,
    ),
    Case(
        "full bf16, chunked loss, checkpointing, longest",
        "qwen2.5-0.5b",
        256,
        {**BF16, **CHECKPOINTS, **CHUNKED},
        8,
        (8, 16),
        longest=True,
    ),
    Case("LoRA, checkpointing, longest", "llama-3.2-1b", 256, {**LORA, **CHECKPOINTS}, 12, (8, 16), longest=True),
]

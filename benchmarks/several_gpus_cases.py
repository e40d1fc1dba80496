"""Several GPUs: ranks to measure on one, and what others measured on many, as questions.

``RANKS`` are to be measured on one GPU, each as a rank of a group that sends nothing; none has been yet. A row of
tests/data/published_several.csv is a question, or there is a reason why it is not one. These rules were set before any
row was predicted.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, str]
FILE = Path(__file__).parents[1] / "tests" / "data" / "published_several.csv"
GPUS_OF_A_MACHINE = 8
# The shapes of MosaicML's MPT: width, layers, heads.
MPT = {
    "760m": (1536, 24, 12),
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
    "70b": (8192, 80, 64),
}
SHARDINGS = {"FULL_SHARD": "fsdp", "SHARD_GRAD_OP": "zero2"}


@dataclass(frozen=True)
class Rank:
    """A rank: a model, its options by their names, and the batch."""

    model: str
    batch: int
    options: dict[str, Any]

    @property
    def id(self) -> str:
        """What the rank is called in tables."""
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.options.items()), f"b{self.batch}"])


BF16: dict[str, Any] = {"precision": "bf16"}
CHECKPOINTS: dict[str, Any] = {"gradient_checkpointing": "full"}
SELECTIVE: dict[str, Any] = {"gradient_checkpointing": "selective"}
PURE: dict[str, Any] = {"weights": "bf16"}
LORA: dict[str, Any] = {"lora": 16}


def _ranks(model: str, batch: int, strategy: str, gpus: tuple[int, ...], **options: Any) -> list[Rank]:
    return [Rank(model, batch, {"gpus": number, "strategy": strategy, **options}) for number in gpus]


RANKS = [
    *_ranks("gpt2", 16, "ddp", (2, 8)),
    *_ranks("gpt2", 16, "ddp", (8,), **BF16),
    *_ranks("bert", 32, "ddp", (4,), accumulate=4),
    *_ranks("tinyllama", 4, "ddp", (8,), **BF16, **LORA),
    *_ranks("llama-3.2-1b", 4, "ddp", (8,), **PURE),
    *_ranks("gpt2", 16, "zero1", (2, 8)),
    *_ranks("tinyllama", 4, "zero1", (8,), **BF16, **CHECKPOINTS),
    *_ranks("llama-3.2-1b", 4, "zero1", (64,), **PURE),
    *_ranks("gpt2", 16, "zero2", (4,)),
    *_ranks("tinyllama", 4, "zero2", (8, 64), **BF16),
    *_ranks("llama-3.2-3b", 2, "zero2", (8,), **BF16, **CHECKPOINTS),
    *_ranks("gpt2", 16, "fsdp", (2, 8)),
    *_ranks("bert", 32, "fsdp", (4,), **BF16),
    *_ranks("tinyllama", 4, "fsdp", (2, 8, 64), **BF16),
    *_ranks("tinyllama", 4, "fsdp", (8,), **BF16, accumulate=3),
    *_ranks("tinyllama", 4, "fsdp", (8,), **BF16, **LORA),
    *_ranks("llama-3.2-3b", 2, "fsdp", (8,), **BF16),
    *_ranks("llama-3.2-3b", 2, "fsdp", (8,), **BF16, **CHECKPOINTS),
    *_ranks("llama-3.2-3b", 2, "fsdp", (8,), **BF16, **SELECTIVE),
    *_ranks("llama-3.2-3b", 2, "fsdp", (16,), **PURE),
    *_ranks("llama-3.1-8b", 1, "fsdp", (8, 64), **BF16, **CHECKPOINTS),
    *_ranks("llama-3.1-8b", 2, "fsdp", (8,), **BF16, **LORA, **CHECKPOINTS),
    *_ranks("olmoe", 2, "fsdp", (8, 64), **BF16, **CHECKPOINTS),
    *_ranks("tinyllama", 4, "hsdp", (16,), nodes=2, **BF16),
    *_ranks("llama-3.2-3b", 2, "hsdp", (64,), nodes=8, **BF16, **CHECKPOINTS),
    *_ranks("tinyllama", 4, "auto", (2,), tensor_parallel=2, **BF16),
    *_ranks("llama-3.2-3b", 2, "auto", (8,), tensor_parallel=8, **BF16, **CHECKPOINTS),
    *_ranks("llama-3.1-8b", 1, "auto", (8,), tensor_parallel=8, **PURE),
    *_ranks("olmoe", 2, "auto", (4,), tensor_parallel=4, **BF16, **CHECKPOINTS),
    *_ranks("tinyllama", 4, "fsdp", (8,), tensor_parallel=2, **BF16),
    *_ranks("llama-3.1-8b", 2, "fsdp", (64,), nodes=8, tensor_parallel=8, **BF16, **CHECKPOINTS),
    *_ranks("llama-3.2-3b", 2, "hsdp", (16,), nodes=2, tensor_parallel=2, **BF16, **SELECTIVE),
]


@dataclass(frozen=True)
class Question:
    """A published training: the GPU it is predicted for, a model by name or config, its options and the batch."""

    gpu: str
    batch: int
    options: dict[str, Any]
    model: str = ""
    config: dict[str, Any] | None = None
    compares_speed: bool = True


def rows() -> list[Row]:
    """All rows, as published."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def question_of(row: Row) -> Question | str:
    """The question that a row answers, or why there is none."""
    setup, recipe = row["setup"], row["recipe"].lower()
    if row["model"].startswith("MPT"):
        return _mpt(row)
    reasons = {
        "tensor, context or pipeline parallel": any(word in setup for word in ("TP", "CP", "PP")),
        "8-bit or 4-bit products": any(word in recipe for word in ("float8", "fp8", "nvfp4", "thunder")),
        "compiled": "compile" in recipe or "graph_trainer" in recipe,
        "its batch is not stated": not row["batch"].isdigit(),
        "it checkpoints whole layers only": "selective layer" in recipe,
    }
    for reason, applies in reasons.items():
        if applies:
            return reason
    gpus = int(row["gpus"])
    options = {**BF16, **SELECTIVE, "gpus": gpus, "nodes": max(gpus // GPUS_OF_A_MACHINE, 1), "strategy": "fsdp"}
    options["seq_len"] = int(row["seq_len"])
    if "A100" in row["gpu"]:
        return Question("a100-80gb", int(row["batch"]), options, model="llama-3.1-8b")
    # Its GPU, an H100 of 96 GB and 2.4 TB/s, is not in the catalog; an H200 is of the same generation, with room.
    return Question("h200", int(row["batch"]), options, model="llama-3.1-8b", compares_speed=False)


def _mpt(row: Row) -> Question:
    """MPT's shapes in GPT-NeoX, the nearest model of transformers with fused attention; AdamW, which is not stated."""
    width, layers, heads = MPT[row["model"].removeprefix("MPT ")]
    config = {
        "model_type": "gpt_neox",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": 50432,
        "use_parallel_residual": False,
        "tie_word_embeddings": True,
    }
    gpus = int(row["gpus"])
    options: dict[str, Any] = {
        **BF16,
        "gpus": gpus,
        "nodes": max(gpus // GPUS_OF_A_MACHINE, 1),
        "strategy": SHARDINGS[row["setup"]],
        "accumulate": int(row["accumulate"]),
        "seq_len": int(row["seq_len"]),
        **(CHECKPOINTS if "checkpointing" in row["recipe"] else {}),
    }
    return Question("h100", int(row["batch"]), options, config=config)

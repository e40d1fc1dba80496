"""What others measured, row by row, as questions: the cases of benchmarks/published.py.

A row of tests/data/published_llm.csv is a question, or there is a reason why it is not one. A question's recipe is
``stated`` if its source, the pull request that added it or the code it names say the model with its head, batch,
length, types, optimizer, method and targets, and the length of the largest batch is certain. The rule was set before
any error was looked at, and holds for whole sources.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from litgpt_net import SHAPES, Adapters, Run
from memorymark.catalog import find_gpu
from memorymark.catalog.gpus import GpuEntry
from memorymark.units import GIB

Row = dict[str, str]
FILE = Path(__file__).parents[1] / "tests" / "data" / "published_llm.csv"


@dataclass(frozen=True)
class Question:
    """A training on one GPU: a model of the catalog with options by their names, or a run of litgpt."""

    gpu: GpuEntry
    batch: int
    options: dict[str, Any]
    model: str = ""
    run: Run | None = None
    stated: bool = True
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def traced_as(self) -> str:
        """What questions have in common that one trace answers."""
        options = {**self.options, "accumulate": self.options.get("accumulate", 1) > 1}
        return str((self.model, self.run, sorted(options.items()), self.gpu.capability))


def rows() -> list[Row]:
    """All rows, as published."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def question_of(row: Row) -> Question | str:
    """The question that a row answers, or why there is none."""
    if row["memory"] in ("", "N/A"):
        return "no memory was published"
    if row["measure"] == "GB, a rule of thumb":
        return "a rule of thumb, not a measurement"
    if row["measure"] == "GB of the GPU":
        return "points of a line that was fitted, not measurements"
    if row["gpu"][:1] in "248" and row["gpu"][1:2] == "x":
        return "several GPUs"
    return SOURCES[row["source"]](row)


# The GPUs that are not in the catalog: one of the same compute capability, and their memory in GiB.
ALIKE = {"GeForce RTX 2060-8GB": ("t4", 8), "rtx3080ti-16GB": ("a10g", 16)}
GPUS = {
    "A10G": "a10g",
    "A100-SXM4-40GB": "a100-40gb",
    "A100-80GB": "a100-80gb",
    "L40S-45GB": "l40s",
    "NVIDIA L40S": "l40s",
    "V100-SXM2-16GB": "v100-16gb",
}


def gpu_of(row: Row) -> GpuEntry:
    """The GPU of a row."""
    name = row["gpu"].removeprefix("1x")
    if name in ALIKE:
        alike, gib = ALIKE[name]
        return replace(find_gpu(alike), id=name, name=name, memory_bytes=gib * GIB, torch_memory_bytes=gib * GIB)
    return find_gpu(GPUS[name])


# litgpt's tables. In the older one the first batch holds the longest sample, and no later one is larger. In the other,
# batches are padded to their longest sample, cut to 512 tokens; which samples meet is not known.

LITGPT_MODELS = {
    "tiiuae/falcon-7b": "falcon-7b",
    "Falcon 40 B": "falcon-40b",
    "google/gemma-2b": "gemma-2b",
    "google/gemma-7b": "gemma-7b",
    "google/gemma-2-2b": "gemma-2-2b",
    "google/gemma-2-9b": "gemma-2-9b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "Llama 2 7 B": "llama-2-7b",
    "Llama 2 13 B": "llama-2-13b",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "meta-llama/Meta-Llama-3.1-8B": "llama-3-8b",
    "meta-llama/Llama-3.2-1B": "llama-3.2-1b",
    "meta-llama/Llama-3.2-3B": "llama-3.2-3b",
    "unsloth/Mistral-7B-v0.2": "mistral-7b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
    "microsoft/phi-2": "phi-2",
    "phi-1.5 1.3 B": "phi-1.5",
    "microsoft/Phi-3-mini-4k-instruct": "phi-3",
    "stabilityai/stablelm-base-alpha-3b": "stablelm-base-alpha-3b",
    "StableLM Alpha 3 B": "stablelm-base-alpha-3b",
    "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T": "tiny-llama",
}
# Their runs were added to the table in July and September 2024, all others of it in April.
LATER = ("gemma-2-", "Meta-Llama-3.1-", "Llama-3.2-", "Phi-3-")


def litgpt(row: Row) -> Question | str:
    """A fine-tuning by litgpt."""
    if row["method"] not in ("full", "lora"):
        return "a method that MemoryMark does not have: LLaMA-Adapter"
    first_longest = row["path"] == "tutorials/resource-tables.md"
    later = any(part in row["model"] for part in LATER)
    dropout = 0.1 if "gemma" in row["model"] else 0.05
    run = Run(
        SHAPES[LITGPT_MODELS[row["model"]]],
        int(row["tokens"]),
        "2023-10" if first_longest else "2024-07" if later else "2024-04",
        Adapters(int(row["rank"]), frozenset(row["targets"].split()), dropout) if row["rank"] else Adapters(),
        row["weights"],  # type: ignore[arg-type]
        first_longest,
        1 if row["method"] == "lora" else int(row["batch"]),
    )
    batch = int(row["batch"])
    options = {
        # Over quantized weights it takes the paged optimizer of bitsandbytes, whose states are not the allocator's.
        "optimizer": "adamw" if row["weights"] == "bf16" else "paged-adamw8bit",
        # Gradients of adapters are 0.2 % at most of what there is; to leave them out is three times as fast.
        "accumulate": 1 if run.adapters.rank else int(row["update_samples"]) // batch,
        # `logits` is a variable of the loop. Before the first batch there are none.
        "keep_outputs": not first_longest,
    }
    return Question(gpu_of(row), batch, options, run=run, stated=first_longest)


# The pages of transformers' models. All were measured by one script, which pull requests 28802, 31031 and 32092 show:
# the sum of the logits as loss, gradients dropped before each step, no optimizer, and the outputs kept.

DOCS = {
    "albert": ("albert", "masked-lm"),
    "bert": ("bert", "masked-lm"),
    "biogpt": ("biogpt", "causal-lm"),
    "distilbert": ("distilbert", "masked-lm"),
    "gpt2": ("gpt2-large", "causal-lm"),
    "gpt_neox": ("pythia-410m", "causal-lm"),
    "opt": ("opt-350m", "causal-lm"),
}


def model_docs(row: Row) -> Question | str:
    """A run of the script that compares eager attention with SDPA."""
    if row["table"] not in DOCS:
        return "images or videos; neither the model's head nor the loss is stated"
    copied = row["table"] == "opt" and row["attention"] == "sdpa" and row["tokens"] == "2048"
    if copied and int(row["batch"]) >= 4:
        return "repeats the row with 1024 tokens, its time included"
    model, task = DOCS[row["table"]]
    options = {
        "task": task,
        "seq_len": int(row["tokens"]),
        "attention": row["attention"],
        "weights": row["weights"],
        "optimizer": "none",
        "loss": "mean",
        "keep_outputs": True,
    }
    return Question(gpu_of(row), int(row["batch"]), options, model)


# bert-large on a V100, by transformers' Trainer of January 2022.

FOUR_BATCHES = {"accumulate": 4}
CHECKPOINTS = {"gradient_checkpointing": True}
ADAMW = {"optimizer_variant": "forloop"}  # transformers' own AdamW, which updates weights one by one
# torch 1.10 keeps gradients, as zeros, between steps. So does a step that adds up two batches.
GRADIENTS_KEPT = {"accumulate": 2}
TRAINER = {
    "fp32 AdamW (HF Trainer default)": {**ADAMW, **GRADIENTS_KEPT},
    "fp32, gradient accumulation, ga=4": {**ADAMW, **FOUR_BATCHES},
    "fp32, grad accum + gradient checkpointing, ga=4": {**ADAMW, **FOUR_BATCHES, **CHECKPOINTS},
    "fp16 mixed precision": {**ADAMW, **GRADIENTS_KEPT, "precision": "fp16"},
    "fp16 + grad accum + checkpointing, ga=4": {**ADAMW, **FOUR_BATCHES, **CHECKPOINTS, "precision": "fp16"},
    "fp32 adafactor": {"optimizer": "adafactor", **GRADIENTS_KEPT},
    "fp16 adafactor + grad accum + ckpt, ga=4": {
        "optimizer": "adafactor",
        **FOUR_BATCHES,
        **CHECKPOINTS,
        "precision": "fp16",
    },
    "fp32 8-bit Adam (bnb)": {"optimizer": "adamw8bit", **GRADIENTS_KEPT},
    "fp16 8-bit Adam + grad accum + ckpt, ga=4": {
        "optimizer": "adamw8bit",
        **FOUR_BATCHES,
        **CHECKPOINTS,
        "precision": "fp16",
    },
}


def tables(row: Row) -> Question | str:
    """A row of one of several tables."""
    if row["table"] in TRAINER:
        options = {"seq_len": int(row["tokens"]), "attention": "eager", **TRAINER[row["table"]]}
        return Question(gpu_of(row), int(row["batch"]), options, "bert-large")
    if row["measure"] == "no memory":
        return "no memory was published, and the step is compiled"
    if "diffusion" in row["model"]:
        return "an image generator, which MemoryMark does not have"
    if not row["batch"]:
        return "neither batch nor length is stated"
    if "Unsloth" in row["table"]:
        return "Unsloth's own kernels, which MemoryMark does not have"
    if "variable" in row["tokens"]:
        return "lengths vary, and neither checkpointing nor the adapted layers are stated"
    return "neither checkpointing, the adapted layers, the optimizer nor what was counted is stated"


def peft(row: Row) -> Question | str:
    """A run of peft's comparison of methods, whose lengths vary up to the given one."""
    for name, method in {"vera": "VeRA", "lorafa": "LoRA-FA", "mica": "MiCA"}.items():
        if name in row["table"]:
            return f"a method that MemoryMark does not have: {method}"
    options = {
        "seq_len": int(row["tokens"]),
        "weights": row["weights"],
        "lora": int(row["rank"]),
        "lora_targets": row["targets"].replace(" ", ","),
    }
    return Question(gpu_of(row), int(row["batch"]), options, "llama-3.2-3b", stated=False)


SOURCES = {"litgpt": litgpt, "model docs": model_docs, "tables": tables, "peft": peft}

"""Trainings whose step times others published, on GPUs that we could not use: the cases of benchmarks/other_gpus.py.

A row of tests/data/published_steps.csv is a question, or there is a reason why it is not one. The rules below, and
which GPUs are held out, were set before any error was looked at.

- NeuSight's trainings: forward and backward pass in fp32 without TF32, eager attention, no optimizer.
- Lambda's runs of NVIDIA's DeepLearningExamples: ResNet-50 on synthetic images in the plain layout, SGD with momentum,
  autocast for "AMP"; BERT for SQuAD padded to 384 tokens, eager attention, fp16 weights for apex's O2. "FP32" is TF32
  from Ampere on, as in NVIDIA's containers. The lower median is taken where a job was run on several machines.
- NVIDIA's own tables, on one GPU: mixed precision of image models is in channels-last, as their configs say.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from memorymark import Workload
from memorymark.catalog import find_gpu
from memorymark.catalog.gpus import GpuEntry
from memorymark.question.recipe import Recipe
from memorymark.question.recipe_choices import Precision
from memorymark.units import GIGA, TERA

Row = dict[str, str]
FILE = Path(__file__).parents[1] / "tests" / "data" / "published_steps.csv"
# A step on one of eight GPUs includes all that one alone does; where that took this much longer, something else did.
ALONE_AT_MOST = 1.1

# GPUs of the rows that the catalog lacks, from their datasheets: compute capability, multiprocessors, boost clock in
# MHz, TFLOP/s in fp32, TF32 and half precision, GB/s, MiB of L2, watts.
DATASHEETS: dict[str, tuple[str, int, float, float, float, float, float, float, float]] = {
    "V100-PCIE": ("7.0", 80, 1380, 14.1, 14.1, 112, 900, 6, 250),
    "A100-PCIE-40GB": ("8.0", 108, 1410, 19.5, 156, 312, 1555, 40, 250),
    "A100-PCIE-80GB": ("8.0", 108, 1410, 19.5, 156, 312, 1935, 40, 300),
    "H100_PCIe": ("9.0", 114, 1755, 51.2, 378, 756, 2039, 50, 350),
    "GH200": ("9.0", 132, 1980, 67, 494.7, 989.4, 4000, 50, 700),
    "RTX_3070": ("8.6", 46, 1725, 20.3, 20.3, 40.6, 448, 4, 220),
    "RTX_3080": ("8.6", 68, 1710, 29.8, 29.8, 59.5, 760, 5, 320),
    "A40": ("8.6", 84, 1740, 37.4, 74.8, 149.7, 696, 6, 300),
    "RTX_A4000": ("8.6", 48, 1560, 19.2, 38.3, 76.7, 448, 4, 140),
    "RTX_A4500": ("8.6", 56, 1650, 23.7, 47.3, 94.6, 640, 6, 200),
    "RTX_A5000": ("8.6", 64, 1695, 27.8, 55.6, 111.1, 768, 6, 230),
    "RTX_A5500": ("8.6", 80, 1665, 34.1, 68.2, 136.4, 768, 6, 230),
    "RTX_2080_Ti": ("7.5", 68, 1545, 13.4, 13.4, 53.8, 616, 5.5, 250),
    "Quadro_RTX_5000": ("7.5", 48, 1815, 11.2, 11.2, 89.2, 448, 4, 230),
    "Quadro_RTX_6000": ("7.5", 72, 1770, 16.3, 16.3, 130.5, 672, 6, 260),
    "Quadro_RTX_8000": ("7.5", 72, 1770, 16.3, 16.3, 130.5, 672, 6, 260),
    "TITAN_RTX": ("7.5", 72, 1770, 16.3, 16.3, 130.5, 672, 6, 280),
}
INLINE_ECC = frozenset({"A40"})
# What each source calls a GPU, and what it is here. GPUs that are not named are older than Turing or are laptops'.
GPUS = {
    "NVIDIA_A100_80GB_PCIe": "A100-PCIE-80GB",
    "NVIDIA_H100_80GB_HBM3": "h100",
    "NVIDIA_H200": "h200",
    "NVIDIA_H100_PCIe": "H100_PCIe",
    "NVIDIA_GH200_480GB": "GH200",
    "A100-SXM4-40GB": "a100-40gb",
    "NVIDIA_A100-SXM4-40GB": "a100-40gb",
    "A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA_A100-PCIE-40GB": "A100-PCIE-40GB",
    "A100-PCIE-80GB": "A100-PCIE-80GB",
    "A100-SXM-80GB": "a100-80gb",
    "NVIDIA_A100-SXM4-80GB": "a100-80gb",
    "GeForce_RTX_3070": "RTX_3070",
    "GeForce_RTX_3080": "RTX_3080",
    "GeForce_RTX_3090": "rtx3090",
    "NVIDIA_GeForce_RTX_3090": "rtx3090",
    "A40": "A40",
    "RTX_A4000": "RTX_A4000",
    "NVIDIA_RTX_A4500": "RTX_A4500",
    "RTX_A5000": "RTX_A5000",
    "NVIDIA_RTX_A5500": "RTX_A5500",
    "GeForce_RTX_2080_Ti": "RTX_2080_Ti",
    "Quadro_RTX_5000": "Quadro_RTX_5000",
    "Quadro_RTX_6000": "Quadro_RTX_6000",
    "Quadro_RTX_8000": "Quadro_RTX_8000",
    "TITAN_RTX": "TITAN_RTX",
    "A100 80GB": "a100-80gb",
    "V100 16GB": "v100-16gb",
    "V100 32GB": "v100-32gb",
}
# Nothing was fitted on these: neither these rows nor operations. The A100 with 80 GB has the chip of that with 40 GB,
# the H100 that of the H200.
HELD_OUT = frozenset(
    "h100 GH200 A100-PCIE-80GB a100-80gb rtx3090 RTX_3070 A40 RTX_A4500 RTX_A5500 RTX_2080_Ti Quadro_RTX_6000 "
    "Quadro_RTX_8000".split()
)


@dataclass(frozen=True)
class Question:
    """A training on a GPU. ``traced_as`` says what questions have in common that one trace answers."""

    gpu: GpuEntry
    held_out: bool
    family: str
    batch: int
    recipe: Recipe
    workload: Any
    traced_as: str


@cache
def gpu_of(name: str) -> GpuEntry:
    """The GPU's entry: the catalog's, or one like it with these rates."""
    if name not in DATASHEETS:
        return find_gpu(name)
    capability, count, clock, fp32, tf32, half, bandwidth, l2_mib, watts = DATASHEETS[name]
    return replace(
        find_gpu("a100-80gb"),
        id=name.lower(),
        name=name,
        compute_capability=capability,
        multiprocessors=count,
        boost_clock_mhz=clock,
        fp32_flops=fp32 * TERA,
        tf32_flops=tf32 * TERA,
        half_flops=half * TERA,
        bytes_per_second=bandwidth * GIGA,
        l2_cache_mib=l2_mib,
        power_watts=watts,
        inline_ecc=name in INLINE_ECC,
    )


def rows() -> list[Row]:
    """All rows, as published."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def question_of(row: Row) -> Question | str:
    """The question that a row answers, or why there is none."""
    name = GPUS.get(row["gpu"])
    if name is None:
        return "a GPU that is a laptop's or older than Volta"
    if row["eight_gpus_seconds"] and float(row["seconds"]) > ALONE_AT_MOST * float(row["eight_gpus_seconds"]):
        return "a GPU that alone took longer than as one of eight"
    found = {"neusight": _neusight, "lambda": _lambda, "nvidia": _nvidia}[row["source"]](row)
    if isinstance(found, str):
        return found
    family, recipe, workload = found
    gpu = gpu_of(name)
    tf32 = recipe.tf32 and gpu.has_bf16
    shared = f"{row['source']} {row['model']} {row['tokens']} {recipe} {gpu.has_bf16}"
    return Question(gpu, name in HELD_OUT, family, int(row["batch"]), replace(recipe, tf32=tf32), workload, shared)


Found = tuple[str, Recipe, Any] | str
# NeuSight's own configs, beside the catalog's models: what differs from GPT-2, and the Switch Transformer.
NEUSIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    "bert_large": ("BertForPreTraining", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}),
    "gpt2_large": ("GPT2LMHeadModel", {"n_embd": 1280, "n_head": 20, "n_layer": 36}),
    "gpt3_xl": ("GPT2LMHeadModel", {"n_embd": 3072, "n_head": 24, "n_layer": 24, "n_positions": 2048}),
    "gpt3_27": ("GPT2LMHeadModel", {"n_embd": 2560, "n_head": 32, "n_layer": 32, "n_positions": 2048}),
    "opt_13": (
        "OPTForCausalLM",
        {"hidden_size": 2048, "ffn_dim": 8192, "num_attention_heads": 32, "num_hidden_layers": 24}
        | {"attention_dropout": 0.0, "vocab_size": 50272, "word_embed_proj_dim": 2048},
    ),
}
# What it is in transformers or timm, and the side of its images.
IMAGE_MODELS = {
    "resnet50": ("resnet-50", 224),
    "resnet50v1.5": ("resnet-50", 224),
    "resnext101-32x4d": ("resnext101_32x4d", 224),
    "se-resnext101-32x4d": ("seresnext101_32x4d", 224),
    "efficientnet-b0": ("efficientnet_b0", 224),
    "efficientnet-b4": ("efficientnet_b4", 380),
}
HEADS = {"bert_large": {"num_attention_heads": 16}}


def _neusight(row: Row) -> Found:
    if row["model"] not in NEUSIGHT:
        return "experts that were run by code of their own"
    recipe = Recipe(optimizer="none", attention="eager")
    return "transformer", recipe, partial(_own_config, row["model"], int(row["tokens"]))


def _own_config(name: str, tokens: int) -> Workload:
    import torch
    import transformers

    model, options = NEUSIGHT[name]
    kind = getattr(transformers, model)

    def batch(size: int, device: Any) -> dict[str, Any]:
        return {"input_ids": torch.ones(size, tokens, dtype=torch.int64, device=device)}

    def loss(module: Any, given: dict[str, Any]) -> Any:
        found = module(**given)
        logits = found["prediction_logits"] if name.startswith("bert") else found["logits"]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), given["input_ids"].flatten())

    def build() -> Any:
        config = kind.config_class(**options, **HEADS.get(name, {}), use_cache=False)
        config._attn_implementation = "eager"
        return kind(config)

    return Workload(build=build, batch=batch, loss=loss, name=name)


def _lambda(row: Row) -> Found:
    if "squad" in row["model"]:
        size = "bert-large" if "large" in row["model"] else "bert"
        return _squad(size, half=row["precision"] == "FP16")
    if row["precision"] == "FP16":
        return "a kind of half precision that is not said"
    return _image_model(row["model"], mixed=row["precision"] == "AMP")


def _nvidia(row: Row) -> Found:
    if row["model"].startswith("fine-tune"):
        return _squad("bert-large", half=row["precision"] == "AMP")
    if row["model"] not in IMAGE_MODELS:
        return "a model that neither timm nor transformers has"
    mixed = row["precision"] == "AMP"
    return _image_model(row["model"], mixed=mixed, channels_last=mixed)


def _squad(model: str, *, half: bool) -> Found:
    weights = "fp16" if half else "auto"
    recipe = Recipe(weights=weights, attention="eager", tf32=True, fused=half)
    return "transformer", recipe, partial(_reading, model)


def _image_model(model: str, *, mixed: bool, channels_last: bool = False) -> Found:
    precision: Precision = "fp16" if mixed else "fp32"
    recipe = Recipe(precision=precision, optimizer="sgd", tf32=True, channels_last=channels_last)
    return "image model", recipe, partial(_images, *IMAGE_MODELS[model])


def _images(model: str, side: int) -> Workload:
    """An image model by its name in the catalog or in timm, of this input size."""
    import torch

    def build() -> Any:
        if model == "resnet-50":
            return _resnet()
        import timm

        return timm.create_model(model)

    def batch(size: int, device: Any) -> tuple[Any, Any]:
        return torch.rand(size, 3, side, side, device=device), torch.randint(0, 1000, (size,), device=device)

    def loss(module: Any, given: tuple[Any, Any]) -> Any:
        found = module(given[0])
        return torch.nn.functional.cross_entropy(getattr(found, "logits", found), given[1])

    return Workload(build=build, batch=batch, loss=loss, name=model)


def _resnet() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def _reading(model: str) -> Workload:
    from memorymark.keywords import make_request
    from memorymark.models.workloads import workload_of

    options = {"task": "question-answering", "seq_len": 384, "attention": "eager", "gpu": "h200", "small": False}
    return workload_of(make_request(model, options))

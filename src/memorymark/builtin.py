"""Builds the catalog's models from their configs: random weights, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memorymark.catalog import ModelEntry
from memorymark.request import Request
from memorymark.workload import Batch, Workload

if TYPE_CHECKING:
    import torch
    from torch import nn

SMALL_SAMPLE_SIZES = {"nlp": 64, "vision": 64}


def builtin_workload(request: Request) -> Workload:
    """The workload a request names."""
    entry = request.entry
    config = {**entry.config, **(entry.small_config if request.small else {})}
    size = sample_size(request)

    def build() -> nn.Module:
        import transformers

        tasks = {
            "sequence-classification": transformers.AutoModelForSequenceClassification,
            "image-classification": transformers.AutoModelForImageClassification,
        }
        model_config = transformers.AutoConfig.for_model(entry.family, **config)
        model: nn.Module = tasks[entry.task].from_config(model_config)
        return model

    def batch(batch_size: int, device: torch.device) -> Batch:
        import torch

        inputs: Batch = {}
        if "input_ids" in entry.inputs:
            shape = (batch_size, size)
            # The last id is left out: GPT-2 pads with it, and a batch without padding is the one to plan for.
            inputs["input_ids"] = torch.randint(0, config["vocab_size"] - 1, shape, device=device)
            inputs["attention_mask"] = torch.ones(shape, dtype=torch.long, device=device)
        if "token_type_ids" in entry.inputs:
            inputs["token_type_ids"] = torch.zeros(batch_size, size, dtype=torch.long, device=device)
        if "pixel_values" in entry.inputs:
            inputs["pixel_values"] = torch.rand(batch_size, config["num_channels"], size, size, device=device)
        inputs["labels"] = torch.randint(0, config["num_labels"], (batch_size,), device=device)
        return inputs

    return Workload(build=build, batch=batch, name=entry.id)


def sample_size(request: Request) -> int:
    """Tokens of a sequence or pixels of an image's side, as asked for or as usual for the model."""
    entry: ModelEntry = request.entry
    asked = request.seq_len or request.image_size
    return asked or (SMALL_SAMPLE_SIZES[entry.type] if request.small else entry.sample_size)

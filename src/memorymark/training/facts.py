"""Facts about a training once its model is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from memorymark.training.bits_and_bytes import paged_state_bytes
from memorymark.training.blame import blaming
from memorymark.training.building import short_dtype, weights_dtype
from memorymark.training.step import TrainingStep
from memorymark.training.weights import count_weights
from memorymark.training.workload import Workload, tensors_of


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """Facts about the model, its optimizer and its samples; ``ProbeInfo`` documents the fields of the same names."""

    parameters: int
    trainable_parameters: int
    weights_dtype: str
    experts: int = 0
    experts_dtype: str = ""
    routing_matters: bool = False
    optimizer: str = ""
    optimizer_is_sgd: bool = False
    paged_state_bytes: int = 0
    sample: str = ""
    sample_sizes: dict[str, int] = field(default_factory=dict)
    sequences: int = 1
    mean_tokens: int = 0
    trainer: str = ""
    language_model: bool = False
    vocabulary: int = 0
    reference_bytes: int = 0
    completions: int = 0
    completion_tokens: int = 0
    kv_cache_bytes: int = 0
    convolves_images: bool = False


def facts_of(step: TrainingStep) -> TrainingFacts:
    """Returns the facts of a step that was built but has not run."""
    parameters, workload = list(step.model.parameters()), step.workload
    routed = list(_experts(step.model))
    return TrainingFacts(
        parameters=sum(map(count_weights, parameters)),
        trainable_parameters=sum(p.numel() for p in parameters if p.requires_grad),
        weights_dtype=weights_dtype(step.model),
        experts=max((number for number, _ in routed), default=0),
        experts_dtype=next((dtype for _, dtype in routed), ""),
        optimizer=step.own_optimizer,
        optimizer_is_sgd=bool(step.own_optimizer) and _are_sgd(step.optimizers),
        paged_state_bytes=0 if step.own_optimizer else paged_state_bytes(step.recipe.optimizer, parameters),
        sample=workload.sample,
        sample_sizes=dict(workload.sample_sizes),
        sequences=workload.sequences,
        mean_tokens=workload.mean_tokens,
        trainer=workload.trainer,
        language_model=workload.language_model,
        vocabulary=workload.vocabulary,
        reference_bytes=step.reference.copied_bytes if step.reference is not None else 0,
        completions=workload.completions,
        completion_tokens=workload.completion_tokens,
        kv_cache_bytes=sum(step.generation.cache) if step.generation is not None else 0,
        convolves_images=_convolves_images(step.model, workload),
    )


def _experts(model: nn.Module) -> Iterator[tuple[int, str]]:
    """Yields how many experts each mixture has and the type of their weights, which are stacked in one tensor."""
    for module in model.modules():
        number = getattr(module, "num_experts", None)
        stacked = [p for p in module._parameters.values() if p is not None and p.dim() == 3 and len(p) == number]
        if stacked:
            yield len(stacked[0]), short_dtype(stacked[0].dtype)


def _are_sgd(optimizers: Iterable[torch.optim.Optimizer]) -> bool:
    return all(isinstance(one, torch.optim.SGD) for one in optimizers)


def _convolves_images(model: nn.Module, workload: Workload) -> bool:
    """Tells whether the model has 2-D convolutions and its batches hold images: 4-D floating point tensors."""
    if not any(isinstance(module, nn.Conv2d) for module in model.modules()):
        return False
    with blaming("batch="):
        batch = workload.batch(1, torch.device("cpu"))
    return any(tensor.dim() == 4 and tensor.is_floating_point() for tensor in tensors_of(batch))

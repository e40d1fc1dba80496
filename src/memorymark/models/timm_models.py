"""Image models of timm, where it is installed. Worker side: imports timm and torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.models.tasks import TASKS, check_sizes
from memorymark.request import Request
from memorymark.workload import Batch, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor, nn


def timm_workload(request: Request) -> Workload:
    """A model of timm's registry with random weights, trained to classify images."""
    name = request.model.removeprefix("timm:")
    timm = _timm(name)
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.partition('.')[0]}*")[:3]
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(f"timm {timm.__version__} has no model {name!r}; {hint}timm.list_models() has them all.")
    task = TASKS["image-classification"]
    if request.task not in (None, task.id):
        raise UsageError(f"timm models are trained for {task.id} here; drop --task.")
    asked = request.sizes
    check_sizes(request.entry.id, task, asked, {})
    facts = timm.get_pretrained_cfg(name)
    channels, *usual = facts.input_size if facts is not None else (3, 224, 224)
    sides = [asked["pixels"]] * 2 if asked["pixels"] else usual

    def build() -> nn.Module:
        model: nn.Module = timm.create_model(name, pretrained=False, **_sized(timm, name, sides, usual))
        return model

    def batch(size: int, device: torch.device) -> Batch:
        import torch

        classes = facts.num_classes if facts is not None and facts.num_classes else 1000
        return {
            "x": torch.rand(size, channels, *sides, device=device),
            "labels": torch.randint(0, classes, (size,), device=device),
        }

    return Workload(build=build, batch=batch, loss=_loss, name=request.entry.id, sample=f"{sides[0]} pixels")


def _sized(timm: Any, name: str, sides: list[int], usual: list[int]) -> dict[str, Any]:
    """What makes a model for other images; convolutions take any, others have to be told."""
    if list(sides) == list(usual):
        return {}
    import inspect

    takes = inspect.signature(timm.model_entrypoint(name)).parameters
    facts = timm.get_pretrained_cfg(name)
    fixed = facts is not None and facts.fixed_input_size
    return {"img_size": tuple(sides)} if fixed and ("img_size" in takes or "kwargs" in takes) else {}


def _loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(batch["x"]), batch["labels"])


def _timm(name: str) -> Any:
    try:
        import timm
    except Exception as error:  # it, or what it needs, is missing or broken
        raise UsageError(
            f"timm:{name} needs timm, which cannot be imported here; `pip install 'memorymark[timm]'` may help.",
            detail=f"{type(error).__name__}: {error}",
        ) from None
    return timm

"""Image models of timm, if it is installed. Worker side: imports timm and torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import TASKS, Task, check_sizes
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.request import Request
from memorymark.suggestions import meant, without
from memorymark.training.workload import Batch, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor, nn


def timm_workload(request: Request) -> Workload:
    """Returns a workload that trains a timm model with random weights to classify images."""
    name = request.model.removeprefix("timm:")
    timm = _timm(name)
    _require_model(timm, name, request)
    task = TASKS["image-classification"]
    _require_task(task, request)
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

    return Workload(
        build=build,
        batch=batch,
        loss=_loss,
        name=request.entry.id,
        sample=f"{sides[0]} pixels",
        sample_sizes={"pixels": sides[0]},
    )


def _require_model(timm: Any, name: str, request: Request) -> None:
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.partition('.')[0]}*")[:3]
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(
            f"timm {timm.__version__} has no model {name!r}; {hint}timm.list_models() lists them all.",
            code="unknown_model",
            field="model",
            given=request.model,
            proposals=meant("model", (f"timm:{one}" for one in near)),
        )


def _require_task(task: Task, request: Request) -> None:
    if request.task not in (None, task.id):
        raise UsageError(
            Message("timm models are trained for {task_id} here; drop {task}.", task_id=task.id),
            code="not_applicable",
            field="task",
            given=request.task,
            allowed=[task.id],
            proposals=[without("task")],
        )


def _sized(timm: Any, name: str, sides: list[int], usual: list[int]) -> dict[str, Any]:
    """Returns the arguments for other image sizes; convolutions take any size, other models must be told."""
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
    except Exception as error:  # timm or one of its dependencies is missing or broken
        raise UsageError(
            f"timm:{name} needs timm, which cannot be imported here; `pip install 'memorymark[timm]'` may help.",
            code="not_installed",
            field="model",
            given=f"timm:{name}",
            detail=f"{type(error).__name__}: {error}",
        ) from None
    return timm

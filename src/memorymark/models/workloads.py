"""The workload that a request names, whatever the name means. Worker side: imports torch and transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.models import batches, heads
from memorymark.models.configs import check_config, stand_in
from memorymark.models.factory import factory_workload, require_file
from memorymark.models.hub import hub_config, remote_code_config
from memorymark.models.tasks import Task, check_sizes
from memorymark.models.timm_models import timm_workload
from memorymark.request import Request
from memorymark.workload import Batch, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn


def workload_of(request: Request) -> Workload:
    """The workload a request names."""
    kind = request.name.kind
    if request.small and not has_stand_in(request):
        raise UsageError(f"there is no stand-in for {request.entry.id}, only for configs; drop --small.")
    if request.recipe.loss == "mean" and kind in ("factory", "timm"):
        raise _no_logits(request)
    if kind == "factory":
        return factory_workload(request)
    if kind == "timm":
        return timm_workload(request)
    return _of_config(request)


def look_early(request: Request) -> None:
    """Refuses a file or a Hugging Face id that is not there, before anything slow is imported."""
    if request.name.kind == "factory":
        require_file(request)
    elif request.name.kind == "hub":
        _facts(request)


def published_config(request: Request) -> dict[str, Any] | None:
    """The config that is fetched for a request, and may be another tomorrow; ``None`` where nothing is fetched."""
    return _facts(request) if request.name.kind == "hub" and not request.trust_remote_code else None


def has_stand_in(request: Request) -> bool:
    """Whether there is a small model of the same kind."""
    return request.name.is_of_transformers


def _of_config(request: Request) -> Workload:
    name, entry = request.entry.id, request.name.entry
    facts = _facts(request)
    if request.small:
        facts = {**facts, **entry.small_config} if entry is not None else _stand_in(request, facts)
    config = (
        remote_code_config(request, facts)
        if request.trust_remote_code and "auto_map" in facts
        else heads.make_config(facts, name)
    )
    task = heads.choose_task(config, request.task or (entry.task if entry is not None else None), name)
    shape = _shape(request, config, task)
    found = heads.model_class(config, task)
    assert found is not None  # noqa: S101 - choose_task has looked
    if request.recipe.channels_last and "pixels" not in task.units:
        raise UsageError(f"--channels-last is for image models and {name} is none; drop it.")

    if request.recipe.loss == "mean" and task.id in ("contrastive", "question-answering"):
        raise _no_logits(request)

    def build() -> nn.Module:
        return heads.build(config, task, name, tied=facts.get("tie_word_embeddings"))

    return Workload(
        build=build,
        batch=batches.make_batch(config, task, heads.forward_arguments(found), shape, name),
        loss=_contrastive_loss if task.id == "contrastive" else None,
        name=name,
        sample=shape.describe(task, config),
    )


def _stand_in(request: Request, facts: dict[str, Any]) -> dict[str, Any]:
    has_code = request.trust_remote_code and "auto_map" in facts
    return stand_in(facts if has_code else heads.spelled_out(facts, request.entry.id))


def _no_logits(request: Request) -> UsageError:
    return UsageError(f"--loss mean takes a model's logits and {request.entry.id} gives none; drop it.")


def _contrastive_loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    loss: Tensor = model(**batch, return_loss=True).loss
    return loss


def _facts(request: Request) -> dict[str, Any]:
    """The config.json, wherever it is."""
    entry = request.name.entry
    if entry is not None:
        return {**entry.config, "model_type": entry.family}
    facts = request.config if request.config is not None else hub_config(request.model, request.revision)
    check_config(facts, request.entry.id, may_run_code=request.trust_remote_code)
    return facts


def _shape(request: Request, config: Any, task: Task) -> batches.Shape:
    """The sizes of a sample: as asked for, or as usual for the model or the task."""
    entry, asked = request.name.entry, request.sizes
    largest = {"tokens": batches.most_tokens(config)} if entry is None or request.task else {}
    check_sizes(request.entry.id, task, asked, {unit: most for unit, most in largest.items() if most is not None})
    usual = {"seconds": batches.seconds_of(config) or task.size, "pixels": batches.image_side(config) or 224}
    is_usual_task = entry is not None and entry.task == task.id
    if entry is not None and is_usual_task and not request.small:
        usual[task.units[0]] = entry.sample_size
    if request.small:
        usual |= {"pixels": batches.small_side(config, usual["pixels"]), "seconds": 1}
    pixels = asked["pixels"] or usual["pixels"]
    if "pixels" in task.units and (asked["pixels"] or request.small):
        batches.set_image_side(config, pixels)
    seconds = asked["seconds"] or usual["seconds"]
    if "seconds" in task.units and (asked["seconds"] or request.small):
        batches.set_seconds(config, seconds)
    if "tokens" not in usual:
        usual["tokens"] = batches.usual_tokens(config, task, pixels)
        if request.small:
            places = batches.image_places(config, pixels) if task.id == "image-text-to-text" else 0
            usual["tokens"] = min(usual["tokens"], task.small_size + places)
    tokens = asked["tokens"] or usual["tokens"]
    if task.id == "image-text-to-text" and tokens <= (places := batches.image_places(config, pixels)):
        raise UsageError(
            f"an image of {pixels} pixels takes {places} tokens of {request.entry.id}; give a larger --seq-len."
        )
    return batches.Shape(tokens=tokens, pixels=pixels, seconds=seconds)

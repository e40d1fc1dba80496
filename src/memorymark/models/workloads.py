"""Builds the workload that a request names. Worker side: imports torch and transformers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import GENERATING, LANGUAGE_MODELS, NEXT_TOKEN, Task, check_sizes
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.models import batches, heads, packing
from memorymark.models.factory import factory_workload, require_file
from memorymark.models.hub import hub_config, remote_code_config
from memorymark.models.maker import Shape, text_config
from memorymark.models.pictures import depth_loss
from memorymark.models.sounds import seconds_of, set_seconds
from memorymark.models.stand_in_fields import LEAST, filled_in
from memorymark.models.timm_models import timm_workload
from memorymark.question.completions import USUAL_COMPLETIONS, completion_tokens_of
from memorymark.question.configs import check_config, stand_in
from memorymark.question.packing import cannot_pack, check_mean, mean_tokens_of, only_next_token
from memorymark.question.quantization import quantization_of
from memorymark.question.request import Request
from memorymark.suggestions import without
from memorymark.training.workload import Batch, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor, nn

    MakeBatch = Callable[[int, torch.device], Batch]


def workload_of(request: Request) -> Workload:
    """Returns the workload that a request names."""
    kind = request.name.kind
    if request.small and not has_stand_in(request):
        raise UsageError(
            Message("{model} has no small stand-in, only configs have; drop {small}.", model=request.entry.id),
            code="not_applicable",
            field="small",
            given=True,
            proposals=[without("small")],
        )
    if request.recipe.loss != "model" and kind in ("factory", "timm"):
        raise _no_logits(request)
    if kind == "factory":
        return factory_workload(request)
    if kind == "timm":
        return timm_workload(request)
    return _of_config(request)


def look_early(request: Request) -> None:
    """Refuses a missing file or Hugging Face id before anything slow is imported."""
    if request.name.kind == "factory":
        require_file(request)
    elif request.name.kind == "hub":
        quantization_of(_facts(request), request.entry.id, request.recipe)


def published_config(request: Request) -> dict[str, Any] | None:
    """Returns the config that is fetched for a request and may change; ``None`` if nothing is fetched."""
    return _facts(request) if request.name.kind == "hub" and not request.trust_remote_code else None


def has_stand_in(request: Request) -> bool:
    """Tells whether there is a small model of the same kind."""
    return request.name.is_of_transformers


def _of_config(request: Request) -> Workload:
    name, entry = request.entry.id, request.name.entry
    facts = _facts(request)
    quantization = quantization_of(facts, name, request.recipe)
    if request.small:
        facts = {**facts, **entry.small_config} if entry is not None else _stand_in(request, facts)
    config = remote_code_config(request, facts) if _has_code(request, facts) else heads.make_config(facts, name)
    task = heads.choose_task(config, request.task or (entry.task if entry is not None else None), name)
    heads.set_padding(config, task)
    shape = _shape(request, config, task)
    found = heads.model_class(config, task)
    assert found is not None  # noqa: S101 - choose_task has looked
    _check_recipe(request, config, task)
    arguments = heads.forward_arguments(found)
    if request.packed:
        _require_packable(request, config, task, arguments, shape)
        # With a cache, transformers does not look for the samples in a row.
        config.use_cache = False

    def build() -> nn.Module:
        return heads.build(config, task, name, tied=facts.get("tie_word_embeddings"))

    mean_tokens = mean_tokens_of(request, shape.tokens)
    return Workload(
        build=build,
        batch=_batch(request, config, task, arguments, shape),
        loss=_loss(request, task, shape, arguments),
        name=name,
        sample=shape.describe(task, mean_tokens),
        sample_sizes=shape.sizes(task),
        mean_tokens=mean_tokens,
        sequences=task.sequences,
        quantization=quantization,
        trainer=task.trainer,
        compares=request.keeps_reference,
        completions=(request.completions or USUAL_COMPLETIONS) if shape.completion_tokens else 0,
        completion_tokens=shape.completion_tokens,
        own_batches=True,
        language_model=task.id in LANGUAGE_MODELS,
        vocabulary=_vocabulary(config, task),
    )


def _has_code(request: Request, facts: dict[str, Any]) -> bool:
    """Tells whether the model comes with code of its own, which may run."""
    return request.trust_remote_code and "auto_map" in facts


def _check_recipe(request: Request, config: Any, task: Task) -> None:
    """Refuses options that do not apply to the model."""
    if request.recipe.channels_last and "pixels" not in task.units:
        raise UsageError(
            Message("{channels_last} is for image models, and {name} is not one", name=request.entry.id),
            hint="drop it",
            code="not_applicable",
            field="channels_last",
            given=True,
            proposals=[without("channels_last", usual=False)],
        )
    _require_loss(request, task)
    if request.recipe.loss == "chunked":
        _require_chunks(request, config, task)


def _vocabulary(config: Any, task: Task) -> int:
    """Returns how many logits a token has if the loss can be computed in chunks, and 0 otherwise."""
    from memorymark.training.chunked_loss import rescales_logits

    if task.id not in NEXT_TOKEN or rescales_logits(config):
        return 0
    return getattr(text_config(config), "vocab_size", None) or 0


def _batch(request: Request, config: Any, task: Task, arguments: set[str], shape: Shape) -> MakeBatch:
    """Returns the function that makes batches, with precomputed log-probabilities if the request asks for them."""
    if request.packed:
        mean, flat = mean_tokens_of(request, shape.tokens), request.recipe.attention == "flash"
        return packing.make_packed_batch(config, task, shape.tokens, mean, in_one_row=flat)
    make = batches.make_batch(config, task, arguments, shape, request.entry.id)
    if task.id == "dpo" and request.reference == "precomputed":
        from memorymark.training.preferences import with_reference_log_probs

        return with_reference_log_probs(make)
    return make


def _require_packable(request: Request, config: Any, task: Task, arguments: set[str], shape: Shape) -> None:
    """Refuses to pack samples where a model could not tell them apart, or where they would not fit into a row."""
    if task.id not in NEXT_TOKEN:
        raise only_next_token(request, task.id)
    if not packing.takes_packed(config, arguments):
        raise cannot_pack("{packed} needs positions that start over within a row, and {model} takes none", request)
    check_mean(request, shape.tokens)


def _stand_in(request: Request, facts: dict[str, Any]) -> dict[str, Any]:
    if _has_code(request, facts):
        return stand_in(facts)
    small = stand_in(heads.spelled_out(filled_in(facts), request.entry.id))
    return {**small, **LEAST.get(facts.get("model_type", ""), {})}


def _loss(request: Request, task: Task, shape: Shape, arguments: set[str]) -> Callable[..., Tensor] | None:
    if request.recipe.loss == "chunked":
        from memorymark.training.chunked_loss import chunked_loss

        return chunked_loss
    from memorymark.training.policy import grpo_loss
    from memorymark.training.preferences import dpo_loss, reward_loss

    if shape.completion_tokens:
        keeps_logits = "logits_to_keep" in arguments
        return partial(grpo_loss, completion_tokens=shape.completion_tokens, keeps_logits=keeps_logits)
    return {
        "contrastive": _contrastive_loss,
        "depth-estimation": depth_loss,
        "reward": reward_loss,
        "dpo": dpo_loss,
    }.get(task.id)


def _require_loss(request: Request, task: Task) -> None:
    """Refuses another loss where the task has its own, or where the model returns no logits for it."""
    if request.recipe.loss != "model" and task.trainer and task.id not in NEXT_TOKEN:
        what = Message(
            "{task:{id}} has a loss of its own, which {loss:{given}} would replace",
            id=task.id,
            given=request.recipe.loss,
        )
        raise _not_this_loss(request, what)
    if request.recipe.loss == "mean" and task.id in ("contrastive", "question-answering"):
        raise _no_logits(request)


def _require_chunks(request: Request, config: Any, task: Task) -> None:
    """Refuses a chunked loss where it would save no logits, or would not be the model's own loss."""
    from memorymark.training.chunked_loss import rescales_logits

    name = request.entry.id
    if task.id not in NEXT_TOKEN:
        raise _not_this_loss(
            request,
            Message("{loss:chunked} is for causal language models, and {model} is not trained as one", model=name),
        )
    if rescales_logits(config):
        raise _not_this_loss(
            request, Message("{loss:chunked} cannot be used with {model}, which rescales its logits", model=name)
        )
    if request.recipe.compile:
        raise _not_this_loss(request, Message("{loss:chunked} runs outside the model that {compile} compiles"))


def _no_logits(request: Request) -> UsageError:
    name = request.entry.id
    if request.recipe.loss == "chunked":
        what = Message("{loss:chunked} needs a language model's logits, and {model} returns none", model=name)
    else:
        what = Message("{loss:mean} needs logits, and {model} returns none", model=name)
    return _not_this_loss(request, what)


def _not_this_loss(request: Request, what: Message) -> UsageError:
    return UsageError(
        what,
        hint="drop it",
        code="not_applicable",
        field="loss",
        given=request.recipe.loss,
        proposals=[without("loss", usual="model")],
    )


def _contrastive_loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    loss: Tensor = model(**batch, return_loss=True).loss
    return loss


def _facts(request: Request) -> dict[str, Any]:
    """Reads the config.json from wherever the request points."""
    entry = request.name.entry
    if entry is not None:
        return {**entry.config, "model_type": entry.family}
    facts = request.config if request.config is not None else hub_config(request.model, request.revision)
    check_config(facts, request.entry.id, may_run_code=request.trust_remote_code)
    return facts


def _shape(request: Request, config: Any, task: Task) -> Shape:
    """Returns the sizes of a sample, requested or usual for the model or the task, and adapts the config to them."""
    _check_sizes(request, config, task)
    asked, usual = request.sizes, _usual_sizes(request, config, task)
    pixels, seconds = asked["pixels"] or usual["pixels"], asked["seconds"] or usual["seconds"]
    if "pixels" in task.units and (asked["pixels"] or request.small):
        batches.set_image_side(config, pixels)
    if "seconds" in task.units and (asked["seconds"] or request.small):
        set_seconds(config, seconds)
    tokens = (
        asked["tokens"]
        or usual.get("tokens")
        or _usual_tokens(request, config, task, Shape(pixels=pixels, seconds=seconds))
    )
    _require_room_for_text(request, config, task, Shape(tokens, pixels, seconds))
    completion_tokens = completion_tokens_of(request, tokens) if task.id in GENERATING else 0
    return Shape(tokens=tokens, pixels=pixels, seconds=seconds, completion_tokens=completion_tokens)


def _check_sizes(request: Request, config: Any, task: Task) -> None:
    """Refuses sizes that exceed what the config allows."""
    is_checked = request.name.entry is not None and not request.task  # the catalog checked it when the request was made
    most_tokens = None if is_checked else batches.most_tokens(config)
    check_sizes(request.entry.id, task, request.sizes, {} if most_tokens is None else {"tokens": most_tokens})


def _usual_sizes(request: Request, config: Any, task: Task) -> dict[str, int]:
    """Returns the default sizes; tokens only if the catalog says how many."""
    entry = request.name.entry
    usual = {"seconds": seconds_of(config) or task.size, "pixels": batches.image_side(config) or _usual_side(task)}
    if request.small:
        return usual | {"pixels": batches.small_side(config, task, usual["pixels"]), "seconds": 1}
    if entry is not None and entry.task == task.id:
        usual[task.units[0]] = entry.sample_size
    return usual


def _usual_side(task: Task) -> int:
    """Returns the side of images for models that take any."""
    return task.size if task.sample_unit == "pixels" else 224


def _usual_tokens(request: Request, config: Any, task: Task, shape: Shape) -> int:
    """Returns how many tokens a text usually has, including those of its image or its sound."""
    usual = batches.usual_tokens(config, task, shape.pixels, shape.seconds)
    if not request.small or config.model_type in batches.FULL_LENGTH:
        return usual
    return min(usual, task.small_size + batches.other_places(config, task, shape))


def _require_room_for_text(request: Request, config: Any, task: Task, shape: Shape) -> None:
    places = batches.other_places(config, task, shape)
    if not places or shape.tokens > places:
        return
    if "pixels" in task.units:
        what = Message(
            "an image of {pixels} pixels takes {places} tokens of {model}",
            pixels=shape.pixels,
            places=places,
            model=request.entry.id,
        )
    else:
        what = Message(
            "{seconds} s of sound take {places} tokens of {model}",
            seconds=shape.seconds,
            places=places,
            model=request.entry.id,
        )
    raise UsageError(
        Message("{what}; use a larger {seq_len}.", what=what),
        code="out_of_range",
        field="seq_len",
        given=shape.tokens,
        allowed={"above": places},
    )

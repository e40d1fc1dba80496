"""How many places of a text an image or a sound takes, as the model itself says. Worker side: imports torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import Task
from memorymark.errors import UsageError
from memorymark.models import heads
from memorymark.models.maker import Maker, Shape

if TYPE_CHECKING:
    from torch import Tensor, nn

    from memorymark.training.workload import Batch

MakeInputs = Callable[[Maker], "Batch"]
# Fields of a config that such functions take as arguments.
TAKEN_FROM_CONFIG = ("vision_feature_layer", "vision_feature_layers", "vision_feature_select_strategy")


def count_places(config: Any, task: Task, shape: Shape, method: str, make_inputs: MakeInputs) -> int:
    """Returns how many features a ``method`` of the model makes of one sample, on tensors without data."""
    return _counted(_Shown(config), task, shape, method, make_inputs)


def place_word(config: Any, kind: str) -> int | None:
    """Returns the token that keeps the places of an image or a sound in a text."""
    for name in (f"{kind}_token_id", f"{kind}_token_index", "media_placeholder_token_id"):
        word = getattr(config, name, None)
        if isinstance(word, int):
            return word
    return None


class _Shown:
    """A config, equal to others that say the same."""

    def __init__(self, config: Any) -> None:
        self.config, self._said = config, repr(sorted(config.to_dict().items(), key=str))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and other._said == self._said

    def __hash__(self) -> int:
        return hash(self._said)


@lru_cache(maxsize=64)
def _counted(shown: _Shown, task: Task, shape: Shape, method: str, make_inputs: MakeInputs) -> int:
    config = shown.config
    try:
        return _features(config, task, shape, method, make_inputs)
    except UsageError:
        raise
    except Exception as error:  # models fail in many ways at inputs that they were not made for
        raise UsageError(
            f"how many tokens of {config.model_type} a sample takes besides its text is not known; pass a "
            "file.py:function that makes the model and its batches.",
            code="not_applicable",
            field="model",
            detail=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
        ) from None


def _features(config: Any, task: Task, shape: Shape, method: str, make_inputs: MakeInputs) -> int:
    import torch

    from memorymark.models.known_values import without_data

    found = heads.model_class(config, task)
    assert found is not None  # noqa: S101 - choose_task has looked
    with without_data() as values:
        values.is_built = True
        model = heads.build(config, task, config.model_type, tied=None)
        values.is_built = False
        arguments = heads.forward_arguments(found)
        inputs = make_inputs(Maker(config, task, arguments, shape, 1, torch.device("cpu")))
        features = _called(model, method, inputs)
        made = _tensors(getattr(features, "pooler_output", None) if hasattr(features, "pooler_output") else features)
    width = made[0].shape[-1]
    return sum(tensor.numel() // width for tensor in made)


def _called(model: nn.Module, method: str, inputs: Batch) -> Any:
    """Calls the model's function from an image or a sound to what stands for it in the text."""
    owners = (getattr(model, "model", None), model)
    function = next((found for owner in owners if (found := getattr(owner, method, None)) is not None), None)
    if function is None:
        raise UsageError(
            f"how {type(model).__name__} takes images or sounds is not known; pass a file.py:function that makes it.",
            code="not_applicable",
            field="model",
        )
    takes = set(inspect.signature(function).parameters)
    own = {name: _from_config(model.config, name) for name in TAKEN_FROM_CONFIG}
    given = {**inputs, **{name: value for name, value in own.items() if value is not None}}
    return function(**{name: value for name, value in given.items() if name in takes})


def _from_config(config: Any, name: str) -> Any:
    return getattr(config, name, None) or getattr(getattr(config, "vision_config", None), name, None)


def _tensors(tree: Any) -> list[Tensor]:
    import torch

    if isinstance(tree, torch.Tensor):
        return [tree]
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, (list, tuple)) else []

"""From a config to a model: chooses the head to train and builds the model. Worker side: imports transformers."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import ANSWERING, TASKS, TELLS_PROBLEM_TYPE, WITHOUT_DROPOUT, Task
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.messages import Message
from memorymark.models.build_guard import only_building
from memorymark.models.config_fields import only_known
from memorymark.models.maker import text_config
from memorymark.question.configs import is_cut, what_to_build
from memorymark.suggestions import without

if TYPE_CHECKING:
    from torch import nn

# The task that a class in a config's ``architectures`` was last trained for. A masked language model is not in the
# list: people fine-tune it for something else.
LAST_TRAINED_FOR = {
    "ForSequenceClassification": ("sequence-classification", "audio-classification"),
    "ForTokenClassification": ("token-classification",),
    "ForQuestionAnswering": ("question-answering",),
    "ForCTC": ("ctc",),
}


def make_config(facts: dict[str, Any], name: str) -> Any:
    """Returns transformers' config object for a config.json."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    facts = what_to_build(facts)
    family = facts["model_type"]
    if family not in CONFIG_MAPPING:
        raise UsageError(
            Message(
                "transformers {version} does not know model_type {family!r} of {name}; try a newer version, or use "
                "{trust_remote_code:True} if the model brings its own code.",
                version=transformers.__version__,
                family=family,
                name=name,
            ),
            code="bad_config",
            field="model",
        )
    config_class = CONFIG_MAPPING[family]
    facts = only_known({key: value for key, value in facts.items() if key != "model_type"}, config_class)
    try:
        with only_building():
            config = config_class.from_dict(facts)
    except (MemoryError, MemoryMarkError):
        raise
    except Exception as error:  # configs check themselves in many ways
        raise no_model(name, error) from None
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        # Most config.json files set it, but not every class has it; any token does for the shape of a batch.
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    return config


def set_padding(config: Any, task: Task) -> None:
    """Sets a padding token for a decoder that has none, as people do: a classifier takes batches only with one."""
    text = text_config(config)
    if task.id in ("sequence-classification", "reward"):
        for part in (config, text):
            if getattr(part, "pad_token_id", 0) is None:
                part.pad_token_id = 0


def spelled_out(facts: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a config.json with the class's defaults for the fields that a stand-in makes smaller."""

    def add(given: dict[str, Any], config: Any) -> dict[str, Any]:
        parts = {key: getattr(config, key, None) for key in getattr(config, "sub_configs", ())}
        usual = {key: value for key, value in config.to_dict().items() if is_cut(key) and value is not None}
        inner = {
            key: _typed(part) | add(given[key] if isinstance(given.get(key), dict) else {}, part)
            for key, part in parts.items()
            if hasattr(part, "to_dict")
        }
        return {**usual, **given, **inner}

    return add(facts, make_config(facts, name))


def _typed(part: Any) -> dict[str, Any]:
    """Returns what a config's part says beyond its class: its type, and what the whole gives it where it is left out.

    A part that is given, even if in one field, gets none of that.
    """
    family, usual = getattr(part, "model_type", ""), type(part)().to_dict()
    parts = getattr(part, "sub_configs", {})
    own = {
        key: value
        for key, value in part.to_dict().items()
        if key not in parts and value is not None and value != usual.get(key) and key != "transformers_version"
    }
    return own | ({"model_type": family} if family else {})


def no_model(name: str, error: Exception) -> UsageError:
    """Returns the error for a config that does not describe a model."""
    said = " ".join(str(error).split())
    if isinstance(error, ImportError):
        return UsageError(
            f"{name} needs a library that is not installed: {said[:100]}",
            hint="install it",
            code="not_installed",
            field="model",
            detail=said[:200],
        )
    return UsageError(
        f"the config of {name} does not describe a model; compare it with a config.json that works.",
        code="bad_config",
        field="model",
        detail=f"{type(error).__name__}: {said[:200]}",
    )


def possible_tasks(config: Any) -> list[str]:
    """Returns the tasks that a model of this config can be trained for."""
    found = [task.id for task in TASKS.values() if model_class(config, task) is not None]
    # Text encoders have a language modelling head, but nobody fine-tunes them to answer.
    return [task for task in found if not (task in ANSWERING and _encodes_text(config, found))]


def choose_task(config: Any, asked: str | None, name: str) -> Task:
    """Returns the requested task, or the one that such models are usually trained for."""
    possible = possible_tasks(config)
    if asked is not None:
        if asked not in possible:
            others = f"it has {', '.join(possible)}" if possible else "pass a file.py:function that makes it"
            raise UsageError(
                f"{name} ({config.model_type}) has no head for {asked}; {others}.",
                code="not_applicable",
                field="task",
                given=asked,
                allowed=possible,
                proposals=[without("task")] if possible else [],
            )
        return TASKS[asked]
    if not possible:
        raise UsageError(
            f"{name} ({config.model_type}) has no head that can be trained here",
            hint="pass a file.py:function that makes it",
            code="not_applicable",
            field="model",
        )
    return TASKS[_usual_task(config, possible)]


def _usual_task(config: Any, possible: list[str]) -> str:
    for architecture in getattr(config, "architectures", None) or ():
        for ending, tasks in LAST_TRAINED_FOR.items():
            for task in tasks:
                if architecture.endswith(ending) and task in possible:
                    return task
    writes_text = ("speech-seq2seq", "seq2seq-lm") if getattr(config, "is_encoder_decoder", False) else ("causal-lm",)
    order = (
        "image-text-to-text",
        "contrastive",
        *(writes_text if not _encodes_text(config, possible) or writes_text != ("causal-lm",) else ()),
        "image-classification",
        "audio-classification",
        "sequence-classification",
    )
    return next((task for task in order if task in possible), possible[0])


def _encodes_text(config: Any, possible: list[str]) -> bool:
    return "masked-lm" in possible and not getattr(config, "is_decoder", False)


def model_class(config: Any, task: Task) -> type[nn.Module] | None:
    """Returns transformers' class with the task's head for this config, or ``None``."""
    import transformers

    auto_class = getattr(transformers, task.auto_class, None)
    if auto_class is None:  # an older version
        return None
    if task.auto_class in getattr(config, "auto_map", {}):
        return _remote_class(config, task)
    mapping = auto_class._model_mapping
    if type(config) not in mapping:
        return None
    found = mapping[type(config)]
    classes = found if isinstance(found, tuple) else (found,)
    named = [one for one in classes if one.__name__ in (getattr(config, "architectures", None) or ())]
    chosen: type[nn.Module] = (named or list(classes))[0]
    return chosen if takes_labels(task, forward_arguments(chosen)) else None


def takes_labels(task: Task, arguments: set[str]) -> bool:
    """Tells whether a forward pass with these arguments computes the task's loss, as far as the model computes it."""
    labels = {"labels", "mask_labels", "bool_masked_pos"}
    return bool(labels & arguments) or task.id in ("contrastive", "question-answering", "depth-estimation")


def _remote_class(config: Any, task: Task) -> type[nn.Module]:
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    found: type[nn.Module] = get_class_from_dynamic_module(
        config.auto_map[task.auto_class],
        config._name_or_path,
        revision=getattr(config, "_commit_hash", None),  # the config's revision, which the code belongs to
    )
    return found


def forward_arguments(found: type[nn.Module]) -> set[str]:
    """Returns the argument names of a class's forward pass."""
    return set(inspect.signature(found.forward).parameters)


def build(config: Any, task: Task, name: str, *, tied: bool | None) -> nn.Module:
    """Builds the model with random weights; ``tied`` is the config.json's setting for its word embeddings."""
    import copy

    import torch

    found = model_class(config, task)
    assert found is not None  # noqa: S101 - choose_task has checked
    config = copy.deepcopy(config)  # building may write into it
    config.dtype = torch.get_default_dtype()  # that of the recipe's weights, whatever the config says
    if task.id in TELLS_PROBLEM_TYPE and getattr(config, "problem_type", None) is None:
        # The first step would change it, and a compiled model would then be compiled again.
        config.problem_type = "regression" if config.num_labels == 1 else "single_label_classification"
    if task.id == "reward":
        config.num_labels = 1
    if config.model_type == "reformer":
        config.is_decoder = task.id == "causal-lm"  # its class demands it
    config = _part_of(found, config)
    try:
        with nullcontext() if hasattr(config, "auto_map") else only_building():
            model: nn.Module = found._from_config(config)  # type: ignore[attr-defined]
    except (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, TypeError, ValueError) as error:
        raise no_model(name, error) from None
    if tied is False:
        _untie(model)
    if task.id in WITHOUT_DROPOUT:
        _turn_dropout_off(model)
    return model


def _part_of(found: type[nn.Module], config: Any) -> Any:
    """Returns the part of a config that a class is made from, such as that of the text alone."""
    wanted = getattr(found, "config_class", type(config))
    parts = (getattr(config, name, None) for name in getattr(config, "sub_configs", ()))
    return config if type(config) is wanted else next((one for one in parts if type(one) is wanted), config)


def _turn_dropout_off(model: nn.Module) -> None:
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def _untie(model: nn.Module) -> None:
    """Gives the model a separate output layer: T5 1.1 has one, though transformers ties it by default."""
    from torch import nn

    inner, outer = model.get_input_embeddings(), model.get_output_embeddings()  # type: ignore[operator]
    if inner is not None and outer is not None and inner.weight is outer.weight:
        outer.weight = nn.Parameter(outer.weight.detach().clone())

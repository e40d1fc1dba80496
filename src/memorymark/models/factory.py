"""Workloads made by a user's function. Worker side: the code runs here, and its errors name it as their cause."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import OPTIONS
from memorymark.checks.nearest import nearest
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.model_names import FactoryCall, read_factory
from memorymark.question.request import Request
from memorymark.suggestions import meant, without
from memorymark.training.blame import said_by
from memorymark.training.workload import Batch, Workload, count_elements, tensors_of

if TYPE_CHECKING:
    import torch
    from torch import nn


def require_file(request: Request) -> None:
    """Raises ``UsageError`` if the file of a request does not exist."""
    call = read_factory(request.model)
    if call.is_file and not Path(call.where).is_file():
        raise UsageError(
            f"there is no file {call.where}; check the path of {request.entry.id}.",
            code="not_readable",
            field="model",
            given=request.model,
        )


def factory_workload(request: Request) -> Workload:
    """Returns the workload that the function of a request makes, with checks around its parts."""
    given = {"task": request.task} | {OPTIONS[unit]: size for unit, size in request.sizes.items()}
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                Message(
                    "{option} does not apply to {model}, which makes its own batches",
                    option=OptionName(option),
                    model=request.entry.id,
                ),
                hint="drop it",
                code="not_applicable",
                field=option,
                given=value,
                proposals=[without(option)],
            )
    call = read_factory(request.model)
    workload = _called(call, request.entry.id)
    return checked(workload, request.entry.id)


def _called(call: FactoryCall, name: str) -> Workload:
    short = Path(call.where).name if call.is_file else call.where
    try:
        module = _file_module(call.where) if call.is_file else _named_module(call.where)
    except (Exception, SystemExit) as error:
        raise _theirs(f"{short} cannot be imported ({said_by(error)}).") from None
    factory = getattr(module, call.function, None)
    if factory is None:
        names = [key for key, value in vars(module).items() if callable(value) and _is_from(module, value)]
        has = f"it has {', '.join(names)}" if names else "it defines no function"
        near = (f"{call.where}:{one}" for one in nearest(call.function, names))
        raise UsageError(
            f"{short} has no {call.function}; {has}.",
            code="unknown_model",
            field="model",
            given=name,
            allowed=names,
            proposals=meant("model", near),
        )
    if isinstance(factory, Workload):
        return factory
    if not callable(factory):
        raise _theirs(
            f"{call.function} of {short} is not a function but {_kind(factory)}; name one that makes a Workload."
        )
    try:
        made = factory(*call.arguments, **call.named)
    except (Exception, SystemExit) as error:
        raise _theirs(f"{name} raised {said_by(error)}.") from None
    if not isinstance(made, Workload):
        raise _theirs(f"{name} returned {_kind(made)}, not a memorymark.Workload; return Workload(build, batch).")
    return made


def checked(workload: Workload, name: str) -> Workload:
    """Returns the workload with checks that turn its errors into one sentence."""
    import torch

    _require_growing_batches(workload, name)

    def build() -> nn.Module:
        try:
            model = workload.build()
        except MemoryMarkError:
            raise
        except Exception as error:
            on_meta = torch.empty(0).is_meta  # the caller can build it elsewhere
            if on_meta and isinstance(error, (NotImplementedError, RuntimeError)):
                raise
            if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
                raise
            raise _theirs(f"build() of {name} raised {said_by(error)}.") from None
        if not isinstance(model, torch.nn.Module):
            raise _theirs(f"build() of {name} returned {_kind(model)}, not a torch.nn.Module.")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise _theirs(f"{name} has no parameters to train: the {type(model).__name__} that it builds has none.")
        return model

    name_given = workload.name if workload.name != "model" else name
    sample = workload.sample or _describe(_batch(workload, 1, torch.device("cpu"), name))
    return replace(workload, build=build, name=name_given, sample=sample)


def _require_growing_batches(workload: Workload, name: str) -> None:
    import torch

    two, three = (count_elements(_batch(workload, size, torch.device("cpu"), name)) for size in (2, 3))
    if two == three:
        raise _theirs(f"batch() of {name} ignores its size: 2 samples are as large as 3; make as many as requested.")


def _batch(workload: Workload, size: int, device: torch.device, name: str) -> Batch:
    try:
        batch = workload.batch(size, device)
    except Exception as error:
        raise _theirs(f"batch() of {name} raised {said_by(error)}.") from None
    if not tensors_of(batch):
        raise _theirs(f"batch() of {name} returned {_kind(batch)} without any tensor.")
    return batch


def _theirs(sentence: str) -> UsageError:
    """Returns the error for a fault in the caller's code."""
    return UsageError(sentence, code="bad_workload", field="model")


def _describe(batch: Batch) -> str:
    """Describes the shape of a sample: ``x 3x128x128, y``; a value with neither a name nor a shape is left out."""
    named = dict(batch) if isinstance(batch, Mapping) else {"": batch}
    parts = (f"{key} {'x'.join(map(str, t.shape[1:]))}".strip() for key in named for t in tensors_of(named[key]))
    return ", ".join(filter(None, parts))


def _file_module(file: str) -> ModuleType:
    """Runs a file as a module; it can import files beside it, but they do not shadow installed packages."""
    _add_to_path(str(Path(file).parent))
    name = f"memorymark_model_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look it up there
    spec.loader.exec_module(module)
    return module


def _named_module(name: str) -> ModuleType:
    _add_to_path(str(Path.cwd()))
    return importlib.import_module(name)


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def _is_from(module: ModuleType, value: Any) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"

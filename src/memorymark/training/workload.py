"""What is trained: a model and its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.question.quantization import Quantization

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# Usually a dict of tensors: the keyword arguments of a forward call.
Batch = Any
# What each function is called with; the loss also with the reference, if there is one.
TAKES = {
    "build": (),
    "batch": ("size", "device"),
    "loss": ("model", "batch"),
    "optimizer": ("model",),
    "step": ("model", "batch", "optimizer"),
}
MAY_BE_LEFT_OUT = ("loss", "optimizer", "step")


@dataclass(frozen=True)
class Workload:
    """A model to build and the synthetic batches to train it on.

    ``build()`` makes the model, with the device as torch's default device; it is called for every run or prediction.
    ``batch(size, device)`` makes the arguments of one forward call, labels included: a dict of keyword arguments, a
    tuple or list of positional ones, a pair of both, or one tensor. For a ``loss`` or ``step`` it may be anything.
    Batches ``from_host`` are made there, whatever the device, and then moved.
    ``loss(model, batch)`` runs the forward pass and returns the loss; without it the model's own ``.loss`` is used.
    ``optimizer(model)`` makes the optimizer, or a list of several; without it the recipe's is used.
    ``step(model, batch, optimizer)`` runs a whole training step instead of a loss: backward passes and updates, of
    several optimizers if need be, in any order. ``optimizer`` is then a list if there are several.
    ``between`` names what runs after each step, such as an evaluation, called like ``step``; its time does not count.
    ``sample`` describes the size of a sample for people; ``sample_sizes`` gives it in numbers by unit, such as
    ``{"tokens": 128}``, if a caller may change it, and ``sequences`` how many of that size a sample has.
    If samples are packed, each of that size is a row of them, and ``mean_tokens`` their mean length.
    ``quantization`` says how the weights are published, if they are quantized.
    ``trainer`` is the trainer of TRL whose step it is, if it is one's. With ``compares``, the loss is
    called as ``loss(model, batch, reference)``: a frozen copy of the model or, under adapters, the model without them.
    With ``completions``, the model first generates so many for each prompt, of ``completion_tokens`` tokens each, and a
    sample is one of them with its prompt.
    ``own_batches`` says that MemoryMark made model and batches, so that what the model raises is no mistake of the
    caller's. ``language_model`` says that it fine-tunes a model that writes text. ``vocabulary`` is the number of
    logits of a token if ``--loss chunked`` can be used, and 0 otherwise.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[int, torch.device], Batch]
    loss: Callable[..., Tensor] | None = None
    name: str = field(default="model", kw_only=True)
    optimizer: Callable[[nn.Module], torch.optim.Optimizer | Sequence[torch.optim.Optimizer]] | None = field(
        default=None, kw_only=True
    )
    step: Callable[[nn.Module, Any, Any], object] | None = field(default=None, kw_only=True)
    between: Mapping[str, Callable[[nn.Module, Any, Any], object]] = field(
        default_factory=dict, kw_only=True, hash=False
    )
    from_host: bool = field(default=False, kw_only=True)
    sample: str = field(default="", kw_only=True)
    sample_sizes: Mapping[str, int] = field(default_factory=dict, kw_only=True, hash=False)
    sequences: int = field(default=1, kw_only=True)
    mean_tokens: int = field(default=0, kw_only=True)
    quantization: Quantization | None = field(default=None, kw_only=True)
    trainer: str = field(default="", kw_only=True)
    compares: bool = field(default=False, kw_only=True)
    completions: int = field(default=0, kw_only=True)
    completion_tokens: int = field(default=0, kw_only=True)
    own_batches: bool = field(default=False, kw_only=True)
    language_model: bool = field(default=False, kw_only=True)
    vocabulary: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name, takes in TAKES.items():
            given = getattr(self, name)
            if not (given is None and name in MAY_BE_LEFT_OUT):
                require_function(name, given, (*takes, "reference") if name == "loss" and self.compares else takes)
        for name, function in self.between.items():
            require_function(f"between[{name!r}]", function, TAKES["step"])
        if self.step is not None and self.loss is not None:
            raise UsageError("step= computes its own loss; leave loss= out.", code="bad_workload")
        for name in ("name", "sample"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name}= must be a string, not {shown(getattr(self, name))}.", code="bad_workload")


def require_function(name: str, given: Any, takes: Sequence[str]) -> None:
    """Refuses a function that cannot be called with these arguments; a builtin without a signature passes."""
    called = f"{name}({', '.join(takes)})"
    if not callable(given):
        kind = shown(given) if given is None or isinstance(given, (str, int, float)) else f"a {type(given).__name__}"
        makes = " that makes as many samples as requested" if name == "batch" else ""
        raise UsageError(f"{name}= must be a function{makes}, called as {called}, not {kind}.", code="bad_workload")
    try:
        signature(given).bind(*takes)
    except TypeError:
        raise UsageError(
            f"{name}= is called as {called}, but {_named(given)} does not accept that.", code="bad_workload"
        ) from None
    except ValueError:  # it has no signature
        return


def _named(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def tensors_of(batch: Any) -> list[Tensor]:
    """Returns the visible tensors of a batch; those inside other objects are not found."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(batch) if isinstance(batch, Mapping) else batch)  # a tokenizer's output is not a dict
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def count_elements(batch: Any) -> int:
    """Returns how many elements the visible tensors of a batch hold."""
    return sum(tensor.numel() for tensor in tensors_of(batch))

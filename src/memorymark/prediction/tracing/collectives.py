"""Recognizes what GPUs that share layers send each other, and tensors that several of them hold together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memorymark.prediction.tracing.operation import SENT_IN_LAYERS

NAMESPACES = ("c10d", "_c10d_functional")
# Attributes of DTensor and of results that are still on their way.
_HOLDS_A_PART, _IS_AWAITED = "_local_tensor", "trigger_wait"


def is_shared(kinds: Iterable[type]) -> bool:
    """Tells whether an operation takes tensors of these kinds apart and runs on what this process holds."""
    return any(hasattr(kind, _HOLDS_A_PART) or hasattr(kind, _IS_AWAITED) for kind in kinds)


def name_of(func: Any, args: tuple[Any, ...], layers_group: str) -> str:
    """Returns the name of a collective: one of its own in the process group of GPUs that share layers."""
    if layers_group and any(_names(argument, layers_group) for argument in args):
        return SENT_IN_LAYERS + str(func).partition(".")[2]
    return str(func)


def _names(argument: Any, group: str) -> bool:
    """Tells whether an argument is the process group, or its name."""
    if isinstance(argument, str):
        return argument == group
    import torch.distributed as dist

    try:
        unboxed: Any = dist.ProcessGroup.unbox(argument)
    except (RuntimeError, TypeError):
        return False
    return bool(unboxed.group_name == group)

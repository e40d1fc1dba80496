"""Which operations the prediction has been held against: those of the workloads measured on a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from memorymark.prediction.program import Program
from memorymark.prediction.roofline import launches

KNOWN = Path(__file__).parent / "known_operations.txt"


@cache
def known_operations() -> frozenset[str]:
    """Names of operations whose memory and time were compared with measurements."""
    return frozenset(KNOWN.read_text(encoding="utf-8").split())


def unknown_operations(program: Program) -> tuple[str, ...]:
    """The operations of a step that run a kernel and were never measured, nor any that work in the same way."""
    names = {growth.operation.name for growth in program.operations if launches(growth.operation)}
    return tuple(sorted(name for name in names - known_operations() if not _works_by_element(name)))


@cache
def _works_by_element(name: str) -> bool:
    """Whether an operation computes each element by itself.

    All such kernels are alike, and many were measured: they take the memory of their result and the time of reading
    and writing.
    """
    namespace, _, rest = name.partition(".")
    base, _, overload = rest.partition(".")
    operation = getattr(getattr(getattr(torch.ops, namespace, None), base, None), overload or "default", None)
    return isinstance(operation, torch._ops.OpOverload) and torch.Tag.pointwise in operation.tags

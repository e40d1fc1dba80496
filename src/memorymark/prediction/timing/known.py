"""The operations that the prediction was validated on: those of the workloads measured on a GPU.

For most of them, memory and time were compared; for those in ``untimed_operations.txt``, only the memory.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from memorymark.prediction.timing.roofline import launches
from memorymark.prediction.tracing.program import Program

# They copy lists of tensors, or between a list and one tensor.
COPY_LISTS = frozenset(
    {
        "aten._foreach_copy_.default",
        "fsdp.all_gather_copy_in.default",
        "fsdp.chunk_cat.default",
        "fsdp.split_with_sizes_copy.default",
    }
)
KNOWN, UNTIMED = (Path(__file__).parent / f"{which}_operations.txt" for which in ("known", "untimed"))


@cache
def known_operations() -> frozenset[str]:
    """Returns the names of operations whose memory and time were compared with measurements."""
    return frozenset(KNOWN.read_text(encoding="utf-8").split())


@cache
def untimed_operations() -> frozenset[str]:
    """Returns the names of operations whose memory was compared with measurements, but not their time."""
    return frozenset(UNTIMED.read_text(encoding="utf-8").split())


def never_timed(program: Program) -> tuple[str, ...]:
    """Returns the operations of a step that run a kernel and were never timed, nor any similar ones."""
    names = {growth.operation.name for growth in program.operations if launches(growth.operation)}
    return tuple(sorted(name for name in names - known_operations() if not _works_by_element(name)))


def split_unknown(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the operations of a step that were never measured, and those whose memory was measured but not their
    time.
    """
    names, measured = never_timed(program), untimed_operations()
    return tuple(name for name in names if name not in measured), tuple(name for name in names if name in measured)


@cache
def _works_by_element(name: str) -> bool:
    """Tells whether an operation computes each element separately, or copies.

    All such kernels are alike, and many were measured: they take the memory of their result and the time to read and
    write.
    """
    if name in COPY_LISTS:
        return True
    namespace, _, rest = name.partition(".")
    base, _, overload = rest.partition(".")
    operation = getattr(getattr(getattr(torch.ops, namespace, None), base, None), overload or "default", None)
    return isinstance(operation, torch._ops.OpOverload) and torch.Tag.pointwise in operation.tags

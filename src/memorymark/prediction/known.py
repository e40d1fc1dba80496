"""Which operations the prediction has been held against: those of the workloads measured on a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from memorymark.prediction.program import Program
from memorymark.prediction.roofline import launches

KNOWN = Path(__file__).parent / "known_operations.txt"


@cache
def known_operations() -> frozenset[str]:
    """Names of operations whose memory and time were compared with measurements."""
    return frozenset(KNOWN.read_text(encoding="utf-8").split())


def unknown_operations(program: Program) -> tuple[str, ...]:
    """The operations of a step that run a kernel and were never measured."""
    names = {growth.operation.name for growth in program.operations if launches(growth.operation)}
    return tuple(sorted(names - known_operations()))

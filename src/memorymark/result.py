"""What a question may be answered with."""

from __future__ import annotations

from typing import Any

from memorymark.analysis import Analysis
from memorymark.comparison import Comparison
from memorymark.sweep import Sweep

Result = Analysis | Comparison | Sweep


def result_from_dict(document: dict[str, Any]) -> Result:
    """The result that its ``to_dict`` wrote, whichever it is."""
    kind = Sweep if "seq_lens" in document else Comparison if "analyses" in document else Analysis
    return kind.from_dict(document)

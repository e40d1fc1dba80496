"""What a question may be answered with."""

from __future__ import annotations

from typing import Any

from memorymark.advice import Advice
from memorymark.analysis import Analysis
from memorymark.comparison import Comparison
from memorymark.sweep import Sweep

Result = Analysis | Comparison | Sweep | Advice


def result_from_dict(document: dict[str, Any]) -> Result:
    """The result that its ``to_dict`` wrote, whichever it is."""
    if "options" in document:
        return Advice.from_dict(document)
    kind = Sweep if "seq_lens" in document else Comparison if "analyses" in document else Analysis
    return kind.from_dict(document)

"""The kinds of results, and reading them back."""

from __future__ import annotations

from typing import Any, Literal, get_args

from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.results.probe_info import ProbeInfo

Result = Analysis | Comparison | Sweep | Advice
Kind = Literal["analysis", "comparison", "sweep", "advice"]
BY_KIND: dict[str, type[Result]] = {result.kind: result for result in get_args(Result)}


def result_from_dict(document: dict[str, Any]) -> Result:
    """Reads a result of any kind that its ``to_dict`` wrote."""
    return BY_KIND[document["kind"]].from_dict(document)


def info_of(result: Result) -> ProbeInfo | None:
    """Returns the device and the model of a result, or ``None`` for a comparison of all GPUs."""
    if isinstance(result, Comparison):
        return None
    return result.plan.info if isinstance(result, Sweep) else result.info

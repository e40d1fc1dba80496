"""The largest batch of the other loop: the one that keeps the model's outputs, or the one that drops them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from memorymark.engine.search import TrialLog, search_with
from memorymark.errors import WorkerError
from memorymark.events import ignore
from memorymark.probe.base import Probe
from memorymark.question.limits import NO_LIMIT
from memorymark.results.analysis import Analysis
from memorymark.results.other_loop import OtherLoop

# A smaller difference between the two loops is not worth mentioning.
DIFFERS = 0.02


def with_other_loop(analysis: Analysis, probe: Probe) -> Analysis:
    """Adds the largest batch of the other loop if it differs by more than 2 %."""
    keeps = analysis.request.recipe.keep_outputs
    if not analysis.max_is_exact:
        return analysis
    try:
        probe.keep_outputs(not keeps)
        maximum = _other_maximum(probe, analysis.max_batch_size, more=keeps)
        probe.keep_outputs(keeps)
    except WorkerError:  # the analysis itself is complete
        return analysis
    return replace(analysis, other_loop=None if maximum is None else OtherLoop(not keeps, maximum))


def _other_maximum(probe: Probe, maximum: int, *, more: bool) -> int | None:
    """Returns the other loop's largest batch; ``None`` if it is about the same, which a single trial shows."""
    nearest = ceil(maximum * (1 + DIFFERS)) if more else int(maximum * (1 - DIFFERS))
    if nearest > 0 and probe.try_from_start(nearest).fits != more:
        return None
    found = search_with(probe, NO_LIMIT, TrialLog(ignore)).maximum
    return found if abs(found - maximum) > DIFFERS * maximum else None

"""The worst case of a training on packed rows: every sample is as long as a row."""

from __future__ import annotations

from dataclasses import replace

from memorymark.engine.search import TrialLog, search_with
from memorymark.errors import WorkerError
from memorymark.events import OnEvent, StageStarted, ignore
from memorymark.probe.base import OpenProbe
from memorymark.question.limits import NO_LIMIT
from memorymark.results.analysis import Analysis
from memorymark.results.packing import Packing


def with_longest_samples(analysis: Analysis, probe: OpenProbe, on_event: OnEvent) -> Analysis:
    """Adds the results for rows that hold one sample each: the worst case, and the cost of padding samples to whole
    rows.
    """
    mean, row = analysis.info.mean_tokens, analysis.info.sample_sizes.get("tokens", 0)
    if not mean:
        return analysis
    typical = analysis.recommended or analysis.maximum
    on_event(StageStarted("throughput", "going on with rows of one sample each"))
    try:
        probe.reshape(row, mean_tokens=row)
        longest = probe.measure(typical.batch_size)
        maximum = analysis.max_batch_size
        if analysis.max_is_exact:
            maximum = search_with(probe, NO_LIMIT, TrialLog(ignore)).maximum
        probe.reshape(row, mean_tokens=mean)
    except WorkerError:  # the analysis itself is complete
        return analysis
    return replace(analysis, packing=Packing(mean, row, maximum, longest, typical.step_seconds))

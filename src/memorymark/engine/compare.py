"""One analysis for each of several GPUs, from traces that GPUs of a generation share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from memorymark.catalog import GpuEntry
from memorymark.devices.resolve import for_gpu
from memorymark.engine.analyze import analyze_with
from memorymark.engine.other_loop import with_other_loop
from memorymark.engine.side_by_side import Relay, side_by_side
from memorymark.engine.site import Site
from memorymark.errors import DoesNotFitError
from memorymark.events import OnEvent, StageStarted, ignore
from memorymark.prediction.tracing.sharing import generation
from memorymark.probe.base import OpenProbe
from memorymark.question.question import Question
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.probe_info import ProbeInfo
from memorymark.worker.supervisor import KeptWorkers, Workers

# A worker takes some seconds to start, as long as about so many GPUs take.
FEWEST_FOR_A_WORKER = 12


class _Found(NamedTuple):
    """What was found for a GPU: its analysis, unless nothing fits."""

    analysis: Analysis | None
    info: ProbeInfo


def compare(question: Question, site: Site, on_event: OnEvent) -> Comparison:
    """Analyzes the request for every GPU of the catalog, or for those that are named."""
    request, compared = question.request, question.gpus_compared
    others = [KeptWorkers() for _ in range(min(site.lanes, len(compared) // FEWEST_FOR_A_WORKER) - 1)]
    workers, parts = [site.workers, *others], _parts(compared, 1 + len(others))
    opened = [
        replace(site, workers=own).open(replace(request, target=for_gpu(request.target, part[0])))
        for own, part in zip(workers, parts, strict=True)
    ]
    on_event(site.announce("tracing", request))
    tell = Relay(on_event)
    pieces = [partial(_analyzed, question, tell, part, probe) for part, probe in zip(parts, opened, strict=True)]
    try:
        found = {gpu: one for part in side_by_side(pieces, workers, _end, tell) for gpu, one in part.items()}
    finally:
        for other in others:
            other.close()
    analyses = {gpu.id: one for gpu in compared if (one := found[gpu.id].analysis) is not None}
    if not analyses:
        largest, info = max(compared, key=lambda gpu: gpu.memory_bytes), found[compared[-1].id].info
        none = "no GPU of the catalog" if question.all_gpus else "none of these GPUs"
        recipe = request.recipe.describe(info.optimizer, info.weights_dtype)
        raise DoesNotFitError(f"{request.entry.name} ({recipe}) fits {none}, not even the {largest.name}", info=info)
    ids = tuple(gpu.id for gpu in compared)
    return Comparison(request, analyses, ids, question.prices or {})


def _parts(gpus: Sequence[GpuEntry], count: int) -> list[Sequence[GpuEntry]]:
    """Returns the GPUs in parts of about the same size, those of a generation together where that is possible."""
    if count == 1:
        return [gpus]
    by_generation = sorted(gpus, key=lambda gpu: generation(gpu.capability))
    ends = [len(gpus) * part // count for part in range(count + 1)]
    return [by_generation[start:end] for start, end in pairwise(ends)]


def _analyzed(
    question: Question, tell: OnEvent, gpus: Sequence[GpuEntry], opened: OpenProbe, _: object
) -> dict[str, _Found]:
    """Returns what is found for each GPU, by its id; the probe is opened for the first."""
    found: dict[str, _Found] = {}
    start = time.perf_counter()
    with opened as probe:
        for gpu in gpus:
            if gpu is not gpus[0]:
                start = time.perf_counter()
                probe.retarget(gpu)
            analysis = None
            try:
                analysis = with_other_loop(analyze_with(question, probe, ignore, start), probe)
                tell(StageStarted("search", f"{gpu.name}: up to batch {analysis.max_batch_size}"))
            except DoesNotFitError:
                tell(StageStarted("search", f"{gpu.name}: does not fit"))
            found[gpu.id] = _Found(analysis, probe.info)
    return found


def _end(workers: Workers | None) -> None:
    if isinstance(workers, KeptWorkers):
        workers.end()

"""Explains where the memory of a step goes, and names the largest thing that an option would do without."""

from __future__ import annotations

from pathlib import Path

from memorymark.advice.removable import Candidate, candidates
from memorymark.engine.reference import check_catalog_reference, check_reference
from memorymark.engine.site import Site
from memorymark.engine.snapshot_file import require_folder, require_history, write_snapshot
from memorymark.errors import MemoryMarkError
from memorymark.events import OnEvent, StageStarted
from memorymark.question.request import Request
from memorymark.results.explanation import Anatomy, Explanation, Removable

# A change that saves less of the peak is not worth a sentence.
LEAST_SAVED = 0.02
# Each costs a trace, or steps on the GPU.
MOST_TRIED = 3


def explained(
    request: Request, batch_size: int, site: Site, on_event: OnEvent, snapshot: Path | None = None
) -> Explanation:
    """Follows a step, then another with the option that would save the most; writes the allocator's ``snapshot``."""
    if snapshot is not None:
        require_folder(snapshot)
    check_catalog_reference(request)
    opened = site.open(request, predict_without_gpu=True)
    on_event(site.announce("building", request))
    with opened as probe:
        check_reference(request, probe.info)
        if snapshot is not None:
            require_history(probe.info)
        doing = "following a predicted step" if probe.info.source == "predicted" else "recording a step"
        on_event(StageStarted("throughput", f"{doing} at batch {batch_size}"))
        anatomy, info = probe.explain(batch_size), probe.info
        if snapshot is not None:
            on_event(StageStarted("throughput", "writing the snapshot"))
            write_snapshot(snapshot, probe.snapshot(batch_size))
    found = [_tried(each, anatomy, site, on_event) for each in candidates(request, info, anatomy)[:MOST_TRIED]]
    saving = [one for one in found if one is not None]
    return Explanation(
        request=request,
        info=info,
        trial=anatomy.trial,
        timeline=anatomy.timeline,
        modules=anatomy.modules,
        alive=anatomy.alive,
        removable=min(saving, key=lambda one: one.peak_allocated_bytes, default=None),
    )


def _tried(candidate: Candidate, anatomy: Anatomy, site: Site, on_event: OnEvent) -> Removable | None:
    """Returns what a change saves; ``None`` if that is next to nothing, or the model does not take it."""
    on_event(StageStarted("throughput", f"trying {candidate.title}"))
    peak = anatomy.timeline.peak_bytes
    try:
        with site.open(candidate.request, predict_without_gpu=True) as probe:
            then = probe.explain(anatomy.trial.batch_size).timeline.peak_bytes
    except MemoryMarkError:
        return None
    return candidate.removable(peak, then) if then < (1 - LEAST_SAVED) * peak else None

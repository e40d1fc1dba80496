"""``memorymark predict``: predicts one trial without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark import answer as engine
from memorymark.cli import options as o
from memorymark.documents import INLINE, Document
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.question.request import Request
from memorymark.results.knowledge import GpuKnowledge
from memorymark.results.trial import Trial


@dataclass(frozen=True, kw_only=True)
class PredictedTrial(Document):
    """A trial, and the GPU that it was predicted for."""

    kind: ClassVar[Literal["trial"]] = "trial"

    trial: Trial = field(metadata=INLINE)
    gpu_name: str
    capacity_bytes: int
    gpu_knowledge: GpuKnowledge | None
    gpu_profile: str
    unknown_operations: tuple[str, ...]


@o.takes_request
def predict(request: Request, run: o.Run, batch_size: o.BatchSizeOption = DEFAULT_CURRENT) -> o.Answer:
    """Predict one batch size for a GPU you need not have. Exits with 3 if it does not fit."""
    from memorymark.render.terminal import print_trial

    info, trial = engine.predict(request, batch_size, **run)
    document = PredictedTrial(
        trial=trial,
        gpu_name=info.device_name,
        capacity_bytes=info.capacity_bytes,
        gpu_knowledge=info.gpu_knowledge,
        gpu_profile=info.gpu_profile,
        unknown_operations=info.unknown_operations,
    )
    return o.Answer(document.to_dict(), lambda: print_trial(request, info, trial), exit_code=0 if trial.fits else 3)

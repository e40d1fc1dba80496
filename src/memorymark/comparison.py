"""The same training on several GPUs: where it is fastest, and where it costs least. Pure functions, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memorymark.analysis import Analysis
from memorymark.catalog import GpuEntry, all_gpus
from memorymark.cost import usd_per_million_samples
from memorymark.notebook import Shown
from memorymark.probe import ProbeInfo
from memorymark.request import Request


@dataclass(frozen=True)
class Contender:
    """One GPU with what is predicted for it; ``analysis`` is ``None`` where the training does not fit."""

    gpu: GpuEntry
    analysis: Analysis | None

    @property
    def samples_per_second(self) -> float | None:
        """Throughput at the batch worth using."""
        best = self.analysis.recommended if self.analysis else None
        return best.samples_per_second if best else None

    @property
    def usd_per_million_samples(self) -> float | None:
        """What a million samples cost at the catalog's price."""
        if self.samples_per_second is None or self.gpu.price is None:
            return None
        return usd_per_million_samples(self.gpu.price.usd_per_hour, self.samples_per_second)

    def to_dict(self) -> dict[str, Any]:
        """The contender as JSON types."""
        recommended = self.analysis.recommended if self.analysis else None
        return {
            "gpu": self.gpu.id,
            "gpu_name": self.gpu.name,
            "fits": self.analysis is not None,
            "max_batch_size": self.analysis.max_batch_size if self.analysis else None,
            "max_batch_interval": self.analysis.max_batch_interval if self.analysis else None,
            "recommended_batch_size": recommended.batch_size if recommended else None,
            "samples_per_second": self.samples_per_second,
            "usd_per_million_samples": self.usd_per_million_samples,
            "price": self.gpu.price.to_dict() if self.gpu.price else None,
        }


@dataclass(frozen=True)
class Comparison(Shown):
    """A training predicted for every GPU of the catalog; ``analyses`` lacks those on which it does not fit."""

    request: Request
    analyses: dict[str, Analysis]

    @property
    def info(self) -> ProbeInfo | None:
        """The facts of the model, with those of one of the GPUs; ``None`` if it fits on none."""
        return next((analysis.info for analysis in self.analyses.values()), None)

    @property
    def contenders(self) -> list[Contender]:
        """Every GPU, the fastest first, those on which it does not fit last."""
        everyone = [Contender(gpu, self.analyses.get(gpu.id)) for gpu in all_gpus()]
        return sorted(everyone, key=lambda c: (c.analysis is None, -(c.samples_per_second or 0.0)))

    @property
    def fastest(self) -> Contender | None:
        """Where the training takes the least time."""
        return next((c for c in self.contenders if c.samples_per_second), None)

    @property
    def cheapest(self) -> Contender | None:
        """Where a sample costs least."""
        priced = [c for c in self.contenders if c.usd_per_million_samples is not None]
        return min(priced, key=lambda c: c.usd_per_million_samples or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON types."""
        fastest, cheapest = self.fastest, self.cheapest
        return {
            "model_name": self.request.model,
            "source": "predicted",
            "recipe": self.request.recipe.to_dict(),
            "fastest": fastest.gpu.id if fastest else None,
            "cheapest": cheapest.gpu.id if cheapest else None,
            "gpus": [contender.to_dict() for contender in self.contenders],
            "request": self.request.to_dict(),
            "analyses": {gpu: analysis.to_dict() for gpu, analysis in self.analyses.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Comparison:
        """The comparison that ``to_dict`` wrote."""
        analyses = {gpu: Analysis.from_dict(analysis) for gpu, analysis in data["analyses"].items()}
        return cls(Request.from_dict(data["request"]), analyses)

"""The same training on several GPUs: where it is fastest, and where it costs least. Pure functions, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memorymark.analysis import Analysis
from memorymark.catalog import GpuEntry, all_gpus
from memorymark.cost import usd_per_million_samples
from memorymark.notebook import Shown
from memorymark.prediction.uncertainty import Interval
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
    def speed_interval(self) -> Interval | None:
        """What the true throughput at that batch should lie between."""
        best, speed = self.analysis.recommended if self.analysis else None, self.samples_per_second
        if best is None or speed is None:
            return None
        return (best.intervals or {}).get("samples_per_second", (speed, speed))

    @property
    def usd_per_million_samples(self) -> float | None:
        """What a million samples cost at the catalog's price."""
        if self.samples_per_second is None or self.gpu.price is None:
            return None
        return usd_per_million_samples(self.gpu.price.usd_per_hour, self.samples_per_second)

    @property
    def cost_interval(self) -> Interval | None:
        """What that should really lie between."""
        if self.speed_interval is None or self.gpu.price is None:
            return None
        low, high = (usd_per_million_samples(self.gpu.price.usd_per_hour, speed) for speed in self.speed_interval)
        return high, low

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
            "samples_per_second_interval": list(self.speed_interval) if self.speed_interval else None,
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
    def fastest_candidates(self) -> list[Contender]:
        """Those that may be the fastest, the fastest by its prediction first; one alone is so for certain."""
        timed = [(c, interval) for c in self.contenders if (interval := c.speed_interval)]
        return [c for c, (_, high) in timed if high >= timed[0][1][0]]

    @property
    def cheapest_candidates(self) -> list[Contender]:
        """The same of those on which a sample may cost least; GPUs without a price are not considered."""
        priced = [(c, interval) for c in self.contenders if (interval := c.cost_interval)]
        priced.sort(key=lambda one: one[0].usd_per_million_samples or 0.0)
        return [c for c, (low, _) in priced if low <= priced[0][1][1]]

    @property
    def fastest(self) -> Contender | None:
        """Where the training takes the least time; ``None`` if the uncertainty leaves that open."""
        return _the_only(self.fastest_candidates)

    @property
    def cheapest(self) -> Contender | None:
        """Where a sample costs least; ``None`` if the uncertainty leaves that open."""
        return _the_only(self.cheapest_candidates)

    @property
    def unpriced(self) -> list[Contender]:
        """Those that could train it and for which no price is known."""
        return [c for c in self.contenders if c.samples_per_second and c.gpu.price is None]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON types."""
        fastest, cheapest = self.fastest, self.cheapest
        return {
            "model_name": self.request.model,
            "source": "predicted",
            "recipe": self.request.recipe.to_dict(),
            "fastest": fastest.gpu.id if fastest else None,
            "fastest_candidates": [contender.gpu.id for contender in self.fastest_candidates],
            "cheapest": cheapest.gpu.id if cheapest else None,
            "cheapest_candidates": [contender.gpu.id for contender in self.cheapest_candidates],
            "unpriced": [contender.gpu.id for contender in self.unpriced],
            "gpus": [contender.to_dict() for contender in self.contenders],
            "request": self.request.to_dict(),
            "analyses": {gpu: analysis.to_dict() for gpu, analysis in self.analyses.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Comparison:
        """The comparison that ``to_dict`` wrote."""
        analyses = {gpu: Analysis.from_dict(analysis) for gpu, analysis in data["analyses"].items()}
        return cls(Request.from_dict(data["request"]), analyses)


def _the_only(candidates: list[Contender]) -> Contender | None:
    return candidates[0] if len(candidates) == 1 else None

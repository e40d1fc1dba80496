"""The same training on several GPUs: which is the fastest and which the cheapest. Pure functions, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark.catalog import GpuEntry, Price, all_gpus, gpu_with_id
from memorymark.documents import ADDED_LATER, LEFT_OUT, Document, in_document
from memorymark.results.analysis import Analysis
from memorymark.results.cost import WholeRun, usd_per_million_samples, whole_run
from memorymark.results.from_analysis import FromAnalysis
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.shown import Shown
from memorymark.results.subject import OfRequest
from memorymark.results.trial import Source, Trial
from memorymark.results.uncertainty import Interval

# The catalog when comparisons did not yet say which GPUs they compared.
OLDER_CATALOG = (
    "t4 v100-16gb v100-32gb a10g a10 l4 l40s rtx3090 rtx4090 rtx5090 a100-40gb a100-80gb h100 h200 b200".split()
)


@dataclass(frozen=True)
class Contender(FromAnalysis, Document):
    """One GPU and the prediction for it; ``analysis`` is ``None`` if the training does not fit."""

    gpu: GpuEntry = field(metadata=LEFT_OUT)
    analysis: Analysis | None = field(metadata=LEFT_OUT)
    own_price: float | None = field(default=None, metadata=LEFT_OUT)

    @property
    @in_document(name="gpu")
    def gpu_id(self) -> str:
        """The GPU's id in the catalog."""
        return self.gpu.id

    @property
    @in_document
    def gpu_name(self) -> str:
        """The GPU's name."""
        return self.gpu.name

    @property
    def timed(self) -> Trial | None:
        """The trial at the batch worth using."""
        return self.analysis.recommended if self.analysis else None

    @property
    @in_document(name="samples_per_second_interval", older=None)
    def speed_interval(self) -> Interval | None:
        """The interval of the predicted throughput at that batch."""
        best, speed = self.timed, self.samples_per_second
        if best is None or speed is None:
            return None
        return (best.intervals or {}).get("samples_per_second", (speed, speed))

    @property
    @in_document
    def usd_per_million_samples(self) -> float | None:
        """Dollars for a million samples at that price."""
        if self.samples_per_second is None or self.price is None:
            return None
        return usd_per_million_samples(self.price.usd_per_hour, self.samples_per_second)

    @property
    @in_document(older=None)
    def whole_run(self) -> WholeRun | None:
        """The run that the question describes, at the batch worth using; null if it describes none."""
        return whole_run(self.analysis.usage, self.timed, self.price) if self.analysis else None

    @property
    def cost_interval(self) -> Interval | None:
        """The interval of the cost of a million samples."""
        if self.speed_interval is None or self.price is None:
            return None
        low, high = (usd_per_million_samples(self.price.usd_per_hour, speed) for speed in self.speed_interval)
        return high, low

    @property
    @in_document
    def price(self) -> Price | None:
        """The price of an hour of all GPUs that train together: the caller's, or the catalog's."""
        price = self.gpu.price if self.own_price is None else Price(self.own_price, "as given")
        gpus = self.analysis.request.recipe.gpus if self.analysis else 1
        return price if price is None or gpus == 1 else price.of(gpus)

    @property
    @in_document(older=False)
    def memory_only(self) -> bool:
        """Whether only memory is predicted for this GPU, not speed or cost."""
        return self.gpu.memory_only


@dataclass(frozen=True)
class Comparison(OfRequest, Shown):
    """A training predicted for every GPU of the catalog, or for some of them."""

    kind: ClassVar[Literal["comparison"]] = "comparison"

    analyses: dict[str, Analysis]
    """The analysis of each GPU on which the training fits, by the GPU's id."""
    compared: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """The ids of the GPUs that were compared; empty in older documents, which compared the catalog of their day."""
    own_prices: dict[str, float] = field(default_factory=dict, metadata=ADDED_LATER)
    """The caller's own dollars per hour, by the GPU's id."""

    @property
    def info(self) -> ProbeInfo | None:
        """The model's facts, taken from the analysis of one GPU; ``None`` if the training fits on none."""
        return next((analysis.info for analysis in self.analyses.values()), None)

    @property
    def which(self) -> str:
        """Which GPUs were compared, in words."""
        return f"{len(self.compared)} GPUs" if 0 < len(self.compared) < len(all_gpus()) else "every GPU"

    @property
    @in_document
    def source(self) -> Source:
        """Always ``predicted``, since nobody has every GPU at hand."""
        return "predicted"

    @property
    @in_document(name="gpus")
    def contenders(self) -> list[Contender]:
        """Every GPU, the fastest first, those on which it does not fit last."""
        gpus = [self._known(gpu_id) for gpu_id in self.compared or OLDER_CATALOG]
        everyone = [Contender(gpu, self.analyses.get(gpu.id), self.own_prices.get(gpu.id)) for gpu in gpus if gpu]
        return sorted(everyone, key=lambda c: (c.analysis is None, -(c.samples_per_second or 0.0)))

    def _known(self, gpu_id: str) -> GpuEntry | None:
        own = self.request.target.entry if self.request.target.gpu_facts is not None else None
        return own if own is not None and own.id == gpu_id else gpu_with_id(gpu_id)

    @property
    def fastest_candidates(self) -> list[Contender]:
        """The GPUs that may be the fastest, in order of predicted speed; a single one is certain."""
        timed = [(c, interval) for c in self.contenders if (interval := c.speed_interval)]
        return [c for c, (_, high) in timed if high >= timed[0][1][0]]

    @property
    def cheapest_candidates(self) -> list[Contender]:
        """The GPUs that may be the cheapest per sample, in order of predicted cost; skips GPUs without a price."""
        priced = [(c, interval) for c in self.contenders if (interval := c.cost_interval)]
        priced.sort(key=lambda one: one[0].usd_per_million_samples or 0.0)
        return [c for c, (low, _) in priced if low <= priced[0][1][1]]

    @property
    def fastest(self) -> Contender | None:
        """The fastest GPU; ``None`` if several are within the uncertainty."""
        return _the_only(self.fastest_candidates)

    @property
    def cheapest(self) -> Contender | None:
        """The cheapest GPU per sample; ``None`` if several are within the uncertainty."""
        return _the_only(self.cheapest_candidates)

    @property
    def unpriced(self) -> list[Contender]:
        """The GPUs that fit the training but have no known price."""
        return [c for c in self.contenders if c.samples_per_second and c.price is None]

    @property
    @in_document(name="fastest")
    def fastest_id(self) -> str | None:
        """The fastest GPU; null if several are within the uncertainty."""
        return self.fastest.gpu.id if self.fastest else None

    @property
    @in_document(name="fastest_candidates", older=())
    def fastest_candidate_ids(self) -> list[str]:
        """The GPUs that may be the fastest, in order of predicted speed."""
        return [contender.gpu.id for contender in self.fastest_candidates]

    @property
    @in_document(name="cheapest")
    def cheapest_id(self) -> str | None:
        """The cheapest GPU per sample; null if several are within the uncertainty."""
        return self.cheapest.gpu.id if self.cheapest else None

    @property
    @in_document(name="cheapest_candidates", older=())
    def cheapest_candidate_ids(self) -> list[str]:
        """The GPUs that may be the cheapest per sample, in order of predicted cost."""
        return [contender.gpu.id for contender in self.cheapest_candidates]

    @property
    @in_document(name="unpriced", older=())
    def unpriced_ids(self) -> list[str]:
        """GPUs that fit the training but have no price, so that they are not considered for cheapest."""
        return [contender.gpu.id for contender in self.unpriced]


def _the_only(candidates: list[Contender]) -> Contender | None:
    return candidates[0] if len(candidates) == 1 else None

"""The answers of a sweep: one case for each combination, and which of them are the fastest and the cheapest. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from memorymark.catalog import Price
from memorymark.documents import LEFT_OUT, Document, Record, in_document
from memorymark.results.analysis import Analysis
from memorymark.results.cost import WholeRun, usd_per_million_samples, whole_run
from memorymark.results.trial import Source
from memorymark.results.uncertainty import Interval

SMALL = " (small stand-in)"


@dataclass(frozen=True, kw_only=True)
class GridCase(Record):
    """One case of a sweep, and its answer or why it has none."""

    number: int
    """Its place in the sweep, from 1."""
    options: dict[str, Any]
    """The options that were given for it."""
    model_name: str
    """The model's name."""
    recipe: str
    """How it is trained, in words."""
    sample: str
    """The shape of one sample in words; empty if unknown."""
    gpu: str | None
    """The GPU's id in the catalog; null if it is not in it, or unknown."""
    gpu_name: str
    """The device's name."""
    source: Source | None = None
    """Whether the numbers were measured or predicted."""
    max_batch_size: int | None = None
    """The largest batch that trains; null if none does, or it is unknown."""
    max_batch_interval: tuple[int, int] | None = None
    """The interval of a predicted maximum; null if it was measured."""
    batch_size: int | None = None
    """The batch worth using; the largest if none keeps the margin."""
    keeps_margin: bool | None = None
    """Whether that batch keeps the margin."""
    samples_per_second: float | None = None
    """Throughput at that batch."""
    samples_per_second_interval: Interval | None = None
    """Its interval; null if it was measured."""
    tokens_per_second: float | None = None
    """Throughput at that batch in tokens; null if the samples are not text."""
    step_seconds: float | None = None
    """Seconds of a step at that batch."""
    price: Price | None = None
    """The price of an hour."""
    whole_run: WholeRun | None = None
    """The run that the options describe, at that batch; null if they describe none."""
    job: str | None = None
    """The id of its job in the history, which has the whole answer; null if it has none."""
    is_new: bool = True
    """Whether this run of the sweep worked it out; else the history had it."""
    error: str | None = None
    """Why there is no answer, in a sentence; null if there is one."""
    error_code: str | None = None
    """The code of that error, such as ``does_not_fit``."""

    @property
    def fits(self) -> bool:
        """Whether it has an answer."""
        return self.error is None

    @property
    def has_failed(self) -> bool:
        """Whether there is no answer; that a training does not fit is one."""
        return self.error is not None and self.error_code not in ("does_not_fit", "launch_limit")

    @property
    def speed_interval(self) -> Interval | None:
        """The interval of the throughput; a measured one is exact."""
        speed = self.samples_per_second
        return self.samples_per_second_interval or ((speed, speed) if speed else None)

    @property
    @in_document
    def usd_per_million_samples(self) -> float | None:
        """Dollars for a million samples."""
        if not self.samples_per_second or self.price is None:
            return None
        return usd_per_million_samples(self.price.usd_per_hour, self.samples_per_second)

    @property
    @in_document
    def usd_per_million_samples_interval(self) -> Interval | None:
        """The interval of that cost."""
        if self.speed_interval is None or self.price is None:
            return None
        low, high = (usd_per_million_samples(self.price.usd_per_hour, speed) for speed in self.speed_interval)
        return high, low


def answer_of(analysis: Analysis) -> dict[str, Any]:
    """Returns the fields of a case that its analysis decides."""
    info, best = analysis.info, analysis.recommended or analysis.maximum
    return {
        "model_name": analysis.request.entry.name + (SMALL if info.small else ""),
        "recipe": analysis.request.recipe.describe(info.optimizer, info.weights_dtype),
        "sample": info.sample,
        "gpu": info.gpu_id,
        "gpu_name": info.device_name,
        "source": analysis.source,
        "max_batch_size": analysis.max_batch_size,
        "max_batch_interval": analysis.max_batch_interval,
        "batch_size": best.batch_size,
        "keeps_margin": analysis.recommended is not None,
        "samples_per_second": best.samples_per_second,
        "samples_per_second_interval": (best.intervals or {}).get("samples_per_second"),
        "tokens_per_second": best.tokens_per_second,
        "step_seconds": best.step_seconds,
        "price": analysis.price,
        "whole_run": whole_run(analysis.usage, best, analysis.price),
    }


@dataclass(frozen=True)
class GridGroup(Document):
    """The cases of one model with samples of one shape, whose speeds and costs can be compared."""

    model_name: str
    """The model."""
    sample: str
    """The shape of one sample."""
    cases: tuple[GridCase, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def timed(self) -> list[GridCase]:
        """The cases with a speed, the fastest first."""
        return sorted((one for one in self.cases if one.samples_per_second), key=lambda one: -_speed(one))

    @property
    def fastest_candidates(self) -> list[GridCase]:
        """The cases that may be the fastest; a single one is certain."""
        timed = self.timed
        if not timed or timed[0].speed_interval is None:
            return []
        least = timed[0].speed_interval[0]
        return [one for one in timed if one.speed_interval and one.speed_interval[1] >= least]

    @property
    def cheapest_candidates(self) -> list[GridCase]:
        """The cases that may be the cheapest per sample; those without a price do not count."""
        priced = [(one, between) for one in self.timed if (between := one.usd_per_million_samples_interval)]
        priced.sort(key=lambda pair: _cost(pair[0]))
        return [one for one, (low, _) in priced if low <= priced[0][1][1]]

    @property
    def counts_tokens(self) -> bool:
        """Whether people count the speed of these cases in tokens."""
        return all(one.tokens_per_second for one in self.timed)

    @property
    @in_document
    def case_numbers(self) -> list[int]:
        """The numbers of its cases."""
        return [one.number for one in self.cases]

    @property
    @in_document
    def fastest(self) -> int | None:
        """The number of the fastest case; null if several are within the uncertainty."""
        return _the_only(self.fastest_candidates)

    @property
    @in_document
    def cheapest(self) -> int | None:
        """The number of the cheapest case per sample; null if several are within the uncertainty."""
        return _the_only(self.cheapest_candidates)

    @property
    @in_document(name="fastest_candidates")
    def fastest_candidate_numbers(self) -> list[int]:
        """The numbers of the cases that may be the fastest, in order of speed."""
        return [one.number for one in self.fastest_candidates]

    @property
    @in_document(name="cheapest_candidates")
    def cheapest_candidate_numbers(self) -> list[int]:
        """The numbers of the cases that may be the cheapest, in order of cost."""
        return [one.number for one in self.cheapest_candidates]

    @property
    @in_document
    def front(self) -> list[int]:
        """The numbers of the cases that none is both faster and cheaper than, the fastest first."""
        return front_of(self.timed)


@dataclass(frozen=True)
class Grid(Document):
    """All cases of a sweep. Not to be confused with ``Sweep``, one training at several lengths."""

    kind: ClassVar[Literal["grid"]] = "grid"

    cases: tuple[GridCase, ...]
    """The cases in the order of the sweep."""
    seconds: float
    """How long this run of the sweep took."""

    @property
    @in_document
    def groups(self) -> list[GridGroup]:
        """The cases that can be compared: those of one model with samples of one shape."""
        members: dict[tuple[str, str], list[GridCase]] = {}
        for one in self.cases:
            if one.fits:
                members.setdefault((one.model_name, one.sample), []).append(one)
        return [GridGroup(*which, tuple(cases)) for which, cases in members.items()]

    @property
    @in_document
    def answered(self) -> int:
        """How many cases have an answer; that a training does not fit is one."""
        return sum(not one.has_failed for one in self.cases)

    @property
    @in_document
    def failed(self) -> int:
        """How many cases have none."""
        return sum(one.has_failed for one in self.cases)

    @property
    @in_document
    def reused(self) -> int:
        """How many answers the history had already."""
        return sum(not one.is_new for one in self.cases)


def seconds_left(*, total: int, done: int, reused: int, seconds: float) -> float | None:
    """Returns what the rest of a sweep takes at the pace of the cases it worked out; ``None`` before there is one."""
    new = done - reused
    return seconds / new * (total - done) if new else None


def front_of(timed: Iterable[GridCase]) -> list[int]:
    """Returns the Pareto front of speed against money: from the fastest on, each case cheaper than all before."""
    front, least = [], float("inf")
    priced = [one for one in timed if one.usd_per_million_samples is not None]
    for one in sorted(priced, key=lambda one: (-_speed(one), _cost(one))):
        if _cost(one) < least:
            front.append(one.number)
            least = _cost(one)
    return front


def _speed(one: GridCase) -> float:
    return one.samples_per_second or 0.0


def _cost(one: GridCase) -> float:
    cost = one.usd_per_million_samples
    return float("inf") if cost is None else cost


def _the_only(candidates: Sequence[GridCase]) -> int | None:
    return candidates[0].number if len(candidates) == 1 else None

"""Trials in, numbers out: maximum, recommended, waste, speedup, money. Pure functions, no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import hypot, inf
from typing import Any, Literal

from memorymark.catalog import Price, all_gpus
from memorymark.cost import Savings, Usage, savings
from memorymark.notebook import Shown
from memorymark.prediction.uncertainty import maximum_interval, speedup_interval
from memorymark.probe import ProbeInfo
from memorymark.request import Request
from memorymark.throughput import recommend, thrashing_sizes
from memorymark.training_code import Code, Plan, code_for
from memorymark.trial import Trial
from memorymark.units import MIB, gib

WhySmaller = Literal["does_not_fit", "not_tried", "thrashing", "margin", "uncertain", "as_fast"]


@dataclass(frozen=True)
class Waste:
    """What a configuration leaves unused of the target."""

    unused_bytes: int
    fraction: float


@dataclass(frozen=True, kw_only=True)
class Analysis(Shown):
    """The answer: what today's batch wastes, the largest that trains, the one worth using, and what it saves.

    ``trials`` are all that ran, in order; the last one at a size is the one that counts.
    ``seconds`` is where the wall time went, by stage.
    """

    request: Request
    info: ProbeInfo
    trials: list[Trial]
    max_batch_size: int
    current_batch_size: int
    margin: float
    usage: Usage
    price: Price | None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Whether the numbers were measured or predicted."""
        return self.trials[-1].source

    @property
    def curve(self) -> list[Trial]:
        """One trial per size, the last of each, smallest first.

        Without what a search saw in a memory in other pieces and no training that starts with that size did.
        """
        last = {trial.batch_size: trial for trial in self.trials}.values()
        agreeing = [t for t in last if t.fits == (t.batch_size <= self.max_batch_size) or self._is_todays(t)]
        return sorted(agreeing, key=lambda trial: trial.batch_size)

    def _is_todays(self, trial: Trial) -> bool:
        return trial.batch_size == self.current_batch_size

    def at(self, batch_size: int) -> Trial | None:
        """The trial at a size, if it was tried."""
        return next((trial for trial in self.curve if trial.batch_size == batch_size), None)

    @property
    def maximum(self) -> Trial:
        """The trial at the largest size that trains."""
        trial = self.at(self.max_batch_size)
        assert trial is not None  # noqa: S101 - the search never returns a size that was not run
        return trial

    @property
    def limited_by(self) -> str:
        """What stops a larger batch: ``memory``, a launch ``limit``, or the ``caller``, who wanted no larger one."""
        failures = [t.failure for t in self.trials if t.batch_size == self.max_batch_size + 1 and t.failure]
        return failures[0].kind if failures else "caller"

    @property
    def max_is_exact(self) -> bool:
        """Whether the next size was run, or predicted, and failed."""
        return self.limited_by != "caller"

    @property
    def max_batch_interval(self) -> tuple[int, int] | None:
        """What the true maximum should lie between if it is predicted; ``None`` if it was run, or the caller's."""
        return predicted_interval(self.info, self.max_batch_size, self.trials) if self.max_is_exact else None

    @property
    def current(self) -> Trial | None:
        """The trial at today's size; ``None`` if it was beyond what was tried."""
        return self.at(self.current_batch_size)

    @property
    def recommended(self) -> Trial | None:
        """The trial at the size worth using; ``None`` if no size keeps the margin."""
        interval = self.max_batch_interval
        return recommend(self.curve, self.safe_bytes, max(interval[0], 1) if interval else inf)

    @property
    def safe_bytes(self) -> float:
        """What the allocator may take if the safety margin is kept."""
        return (1 - self.margin) * self.info.capacity_bytes

    @property
    def thrashing(self) -> set[int]:
        """Sizes that run but should not be used."""
        return thrashing_sizes(self.curve)

    @property
    def target_bytes(self) -> int:
        """The memory of the target: the whole device, or the cap."""
        return self.info.target_bytes

    def waste(self, trial: Trial) -> Waste:
        """What a trial leaves unused of the target at its peak."""
        unused = max(self.target_bytes - self.info.held_bytes(trial), 0)
        return Waste(unused, unused / self.target_bytes)

    @property
    def smaller_because(self) -> WhySmaller | None:
        """Why a smaller batch than today's is recommended; ``None`` where none is.

        Today's ``does_not_fit`` or was ``not_tried``, is ``thrashing``, keeps no ``margin``, is above the least that
        the true maximum may be (``uncertain``), or the smaller one is ``as_fast`` with less memory.
        """
        now, then, today = self.current, self.recommended, self.current_batch_size
        if then is None or then.batch_size >= today:
            return None
        if now is None or not now.fits:
            return "does_not_fit" if self.max_is_exact else "not_tried"
        if today in self.thrashing:
            return "thrashing"
        if now.peak_reserved_bytes > self.safe_bytes:
            return "margin"
        interval = self.max_batch_interval
        return "uncertain" if interval and today > interval[0] else "as_fast"

    @property
    def speedup(self) -> float | None:
        """Throughput at recommended over that at current."""
        now, then = self.current, self.recommended
        if not now or not then or not now.samples_per_second or not then.samples_per_second:
            return None
        return then.samples_per_second / now.samples_per_second

    @property
    def speedup_interval(self) -> tuple[float, float] | None:
        """What the true speedup should lie between: by the errors of predictions, or by the spread of the steps."""
        speedup, now, then = self.speedup, self.current, self.recommended
        if speedup is None or now is None or then is None:
            return None
        if now.batch_size == then.batch_size:
            return 1.0, 1.0
        if self.source == "predicted":
            return speedup_interval(speedup, self.info.gpu, certain=not self.info.unknown_operations)
        off = hypot(now.step_seconds_spread or 0.0, then.step_seconds_spread or 0.0) / 2
        return speedup * max(1 - off, 0.0), speedup * (1 + off)

    @property
    def batch_ratio(self) -> float:
        """Maximum over current: a ratio of sizes and not a speedup."""
        return self.max_batch_size / self.current_batch_size

    @property
    def savings(self) -> Savings | None:
        """What the speedup is worth; ``None`` without a price or a speedup."""
        if self.price is None or self.speedup is None:
            return None
        return savings(self.price.usd_per_hour, self.usage, self.speedup)

    @property
    def code(self) -> Code:
        """The recommended batch, or the largest where none is, as code to paste."""
        recipe = self.request.recipe
        plan = Plan.of(
            self.request,
            self.info,
            recipe=recipe,
            batch_size=(self.recommended or self.maximum).batch_size,
            accumulation_steps=recipe.accumulation_steps,
        )
        return code_for(plan)

    def to_dict(self) -> dict[str, Any]:
        """The analysis as the JSON document of the command line."""
        saved, recommended = self.savings, self.recommended
        fits_now = self.current if self.current and self.current.fits else None
        waste, waste_now = self.waste(self.maximum), self.waste(fits_now) if fits_now else None
        waste_then = self.waste(recommended) if recommended else None
        return {
            "model_name": self.request.model,
            "device": self.info.device_kind,
            "gpu_name": self.info.device_name,
            "gpu_total_gb": gib(self.target_bytes),
            "recommended_batch_size": recommended.batch_size if recommended else None,
            "optimal_batch_size": self.max_batch_size,
            "optimal_memory_gb": gib(self.maximum.peak_allocated_bytes),
            "current_batch_size": self.current_batch_size,
            "current_memory_gb": gib(fits_now.peak_allocated_bytes) if fits_now else None,
            "waste_gb": gib(waste.unused_bytes),
            "waste_percent": 100 * waste.fraction,
            "speedup": self.speedup,
            "speedup_interval": list(self.speedup_interval) if self.speedup_interval else None,
            "cost_savings_per_run": saved.per_run_usd if saved else None,
            "cost_savings_annual": saved.per_year_usd if saved else None,
            "results": [_result_row(trial) for trial in self.curve],
            "max_batch_size": self.max_batch_size,
            "max_is_exact": self.max_is_exact,
            "max_batch_interval": self.max_batch_interval,
            "limited_by": self.limited_by,
            "smaller_because": self.smaller_because,
            "recommended_waste_gb": gib(waste_then.unused_bytes) if waste_then else None,
            "recommended_waste_percent": 100 * waste_then.fraction if waste_then else None,
            "current_waste_gb": gib(waste_now.unused_bytes) if waste_now else None,
            "current_waste_percent": 100 * waste_now.fraction if waste_now else None,
            "batch_ratio": self.batch_ratio,
            "thrashing_batch_sizes": sorted(self.thrashing),
            "source": self.source,
            "unknown_operations": list(self.info.unknown_operations),
            "breakdown": self.maximum.to_dict()["breakdown"],
            "recipe": self.request.recipe.to_dict(),
            "small": self.info.small,
            "sample": self.info.sample,
            "margin": self.margin,
            "price": self.price.to_dict() if self.price else None,
            "usage": self.usage.to_dict(),
            "code": asdict(self.code),
            "trials": [trial.to_dict() for trial in self.trials],
            "capacity_bytes": self.info.capacity_bytes,
            "versions": self.info.versions,
            "seconds": self.seconds,
            "request": self.request.to_dict(),
            "info": self.info.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Analysis:
        """The analysis that ``to_dict`` wrote."""
        return cls(
            request=Request.from_dict(data["request"]),
            info=ProbeInfo.from_dict(data["info"]),
            trials=[Trial.from_dict(trial) for trial in data["trials"]],
            max_batch_size=data["max_batch_size"],
            current_batch_size=data["current_batch_size"],
            margin=data["margin"],
            usage=Usage(**data["usage"]),
            price=Price(**data["price"]) if data["price"] else None,
            seconds=data["seconds"],
        )


def predicted_interval(info: ProbeInfo, maximum: int, trials: list[Trial]) -> tuple[int, int] | None:
    """What the true maximum should lie between; ``None`` where nothing was predicted."""
    gpu = next((gpu for gpu in all_gpus() if gpu.name == info.device_name), None)
    if info.source != "predicted" or gpu is None:
        return None
    return maximum_interval(maximum, trials, gpu, certain=not info.unknown_operations, capped=info.capped)


def _result_row(trial: Trial) -> dict[str, Any]:
    return {
        "batch_size": trial.batch_size,
        "memory_mb": trial.peak_allocated_bytes / MIB if trial.fits else None,
        "memory_gb": gib(trial.peak_allocated_bytes) if trial.fits else None,
        "success": trial.fits,
        "error": trial.failure.message if trial.failure else None,
        "samples_per_second": trial.samples_per_second,
    }

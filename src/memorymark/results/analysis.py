"""Computes the maximum, recommendation, waste, speedup and savings from trials. Pure functions, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot, inf
from typing import ClassVar, Literal

from memorymark.catalog import Price
from memorymark.documents import ADDED_LATER, in_document
from memorymark.question.usage import Usage
from memorymark.results.code import Code, Plan, code_for
from memorymark.results.cost import Savings, WholeRun, savings, whole_run
from memorymark.results.other_loop import OtherLoop
from memorymark.results.packing import Packing
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.recommendation import recommend, thrashing_sizes
from memorymark.results.result_row import ResultRow
from memorymark.results.shown import Shown
from memorymark.results.subject import OfOneGpu
from memorymark.results.timed import Timed
from memorymark.results.trial import Breakdown, PerGpu, Source, Trial
from memorymark.results.uncertainty import hardly_untimed, maximum_interval, speedup_interval
from memorymark.units import gib

Limit = Literal["memory", "limit", "caller"]
WhySmaller = Literal["does_not_fit", "not_tried", "thrashing", "margin", "uncertain", "as_fast"]


@dataclass(frozen=True)
class Waste:
    """The memory of the target that a configuration leaves unused."""

    unused_bytes: int
    fraction: float

    @property
    def percent(self) -> float:
        """The same in percent."""
        return 100 * self.fraction


@dataclass(frozen=True, kw_only=True)
class Analysis(OfOneGpu, Timed, Shown):
    """What today's batch wastes, the largest batch that trains, the one worth using, and what it saves.

    In the document, ``*_gb`` are GiB (2^30 bytes). ``*_waste_*`` is the part of ``gpu_total_gb`` that the GPU does not
    hold at the peak; ``optimal_memory_gb``, ``current_memory_gb`` and the memory of ``results`` count only what tensors
    have allocated.
    """

    kind: ClassVar[Literal["analysis"]] = "analysis"

    trials: list[Trial]
    """All trials in the order they ran; the last one at a size counts."""
    max_batch_size: int
    """The largest batch that trains."""
    current_batch_size: int
    """Today's batch."""
    margin: float
    """The fraction of the memory to leave free."""
    usage: Usage
    """How much is trained."""
    price: Price | None
    """The price of an hour on this GPU; null if it is unknown."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The wall time by stage."""
    other_loop: OtherLoop | None = field(default=None, metadata=ADDED_LATER)
    """The same training with its loop written the other way: one that keeps the model's outputs, or drops them. Null if
    that changes the largest batch by 2 % or less.
    """
    packing: Packing | None = field(default=None, metadata=ADDED_LATER)
    """What packing gains; null if samples are not packed."""

    @property
    @in_document
    def source(self) -> Source:
        """Whether the numbers were measured or predicted."""
        return self.trials[-1].source

    @property
    def curve(self) -> list[Trial]:
        """One trial per size, the last of each, smallest first.

        Leaves out sizes that fit or failed only because the search had fragmented the memory.
        """
        last = {trial.batch_size: trial for trial in self.trials}.values()
        agreeing = [t for t in last if t.fits == (t.batch_size <= self.max_batch_size) or self._is_todays(t)]
        return sorted(agreeing, key=lambda trial: trial.batch_size)

    def _is_todays(self, trial: Trial) -> bool:
        return trial.batch_size == self.current_batch_size

    def at(self, batch_size: int) -> Trial | None:
        """Returns the trial at a size, or ``None`` if it was not tried."""
        return next((trial for trial in self.curve if trial.batch_size == batch_size), None)

    @property
    def maximum(self) -> Trial:
        """The trial at the largest size that trains."""
        trial = self.at(self.max_batch_size)
        assert trial is not None  # noqa: S101 - the search never returns a size that was not run
        return trial

    @property
    @in_document
    def limited_by(self) -> Limit:
        """What stops a larger batch: ``memory``, a launch ``limit``, or the ``caller``, who set a maximum."""
        failures = [t.failure for t in self.trials if t.batch_size == self.max_batch_size + 1 and t.failure]
        return failures[0].kind if failures else "caller"

    @property
    @in_document
    def max_is_exact(self) -> bool:
        """Whether the next larger size was run or predicted, and failed."""
        return self.limited_by != "caller"

    @property
    @in_document
    def max_batch_interval(self) -> tuple[int, int] | None:
        """The interval of a predicted maximum; ``None`` if it was measured, or set by the caller."""
        return predicted_interval(self.info, self.max_batch_size, self.trials) if self.max_is_exact else None

    @property
    def current(self) -> Trial | None:
        """The trial at today's size; ``None`` if it was not tried."""
        return self.at(self.current_batch_size)

    @property
    def recommended(self) -> Trial | None:
        """The trial at the size worth using; ``None`` if no size keeps the margin."""
        interval = self.max_batch_interval
        return recommend(self.curve, self.safe_bytes, max(interval[0], 1) if interval else inf)

    @property
    def timed(self) -> Trial | None:
        """The trial whose speed the document gives: the recommended one."""
        return self.recommended

    @property
    def safe_bytes(self) -> float:
        """The memory that the allocator may use within the safety margin."""
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
        """Returns how much of the target a trial leaves unused at its peak."""
        unused = max(self.target_bytes - self.info.held_bytes(trial), 0)
        return Waste(unused, unused / self.target_bytes)

    @property
    @in_document(older=None)
    def smaller_because(self) -> WhySmaller | None:
        """Why a smaller batch than today's is recommended; ``None`` if it is not smaller.

        Today's batch ``does_not_fit``, was ``not_tried``, is ``thrashing``, does not leave the ``margin`` free, may
        exceed the true maximum (``uncertain``), or the smaller one is ``as_fast`` with less memory.
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
    @in_document
    def speedup(self) -> float | None:
        """Throughput at the recommended batch over that at today's."""
        now, then = self.current, self.recommended
        if not now or not then or not now.samples_per_second or not then.samples_per_second:
            return None
        return then.samples_per_second / now.samples_per_second

    @property
    @in_document(older=None)
    def speedup_interval(self) -> tuple[float, float] | None:
        """The interval of the speedup, from the errors of predictions or the spread of measured steps."""
        speedup, now, then = self.speedup, self.current, self.recommended
        if speedup is None or now is None or then is None:
            return None
        if now.batch_size == then.batch_size:
            return 1.0, 1.0
        if self.source == "predicted":
            timed = self.info.timed or (self.info.options_timed and hardly_untimed(then, self.info.gpu))
            calibrated = self.info.gpu_knowledge == "calibrated"
            return speedup_interval(speedup, self.info.gpu, timed=timed, calibrated=calibrated)
        off = hypot(now.step_seconds_spread or 0.0, then.step_seconds_spread or 0.0) / 2
        return speedup * max(1 - off, 0.0), speedup * (1 + off)

    @property
    @in_document(older=1)
    def gpus(self) -> int:
        """How many GPUs train together; batch sizes and memory are those of each, throughput and money of all."""
        return self.request.recipe.gpus

    @property
    @in_document(older=None)
    def strategy(self) -> str | None:
        """How they share the work; null for one GPU, and if all of them share each layer."""
        return self.request.recipe.used_strategy

    @property
    @in_document(older=1)
    def tensor_parallel(self) -> int:
        """How many GPUs share each layer, and with it each batch."""
        return self.request.recipe.tensor_parallel

    @property
    @in_document(older=None)
    def per_gpu(self) -> PerGpu | None:
        """What each of several GPUs holds and does at the recommended batch, or the largest; null for one GPU."""
        return (self.recommended or self.maximum).per_gpu

    @property
    @in_document
    def batch_ratio(self) -> float:
        """The largest batch over today's: a ratio of sizes, not a speedup."""
        return self.max_batch_size / self.current_batch_size

    @property
    def savings(self) -> Savings | None:
        """What the speedup saves; ``None`` without a price or a speedup."""
        if self.price is None or self.speedup is None:
            return None
        return savings(self.price.usd_per_hour, self.usage, self.speedup)

    @property
    @in_document(older=None)
    def whole_run(self) -> WholeRun | None:
        """The run that the question describes, at the recommended batch; null if it describes none."""
        return whole_run(self.usage, self.recommended, self.price)

    @property
    @in_document(older=None)
    def whole_run_today(self) -> WholeRun | None:
        """The same run at today's batch; null if that was not timed."""
        return whole_run(self.usage, self.current, self.price)

    @property
    @in_document(older=None)
    def code(self) -> Code:
        """Code to paste for the recommended batch, or for the largest if none is recommended."""
        recipe = self.request.recipe
        plan = Plan.of(
            self.request,
            self.info,
            recipe=recipe,
            batch_size=(self.recommended or self.maximum).batch_size,
            accumulation_steps=recipe.accumulation_steps,
        )
        return code_for(plan)

    # Further parts of the document, by the names they were published with.

    @property
    @in_document
    def device(self) -> str:
        """The kind of device: ``cuda``, ``mps`` or ``cpu``."""
        return self.info.device_kind

    @property
    @in_document
    def gpu_total_gb(self) -> float:
        """The memory of the target: the whole device, or the cap."""
        return gib(self.target_bytes)

    @property
    @in_document
    def capacity_bytes(self) -> int:
        """The most that the allocator can hold."""
        return self.info.capacity_bytes

    @property
    @in_document
    def recommended_batch_size(self) -> int | None:
        """The batch to train with: the smallest that is about as fast as any and keeps the margin, or null."""
        return self.recommended.batch_size if self.recommended else None

    @property
    @in_document
    def optimal_batch_size(self) -> int:
        """The largest batch that trains, same as max_batch_size; train with recommended_batch_size."""
        return self.max_batch_size

    @property
    @in_document
    def optimal_memory_gb(self) -> float:
        """What tensors have allocated at the largest batch that trains."""
        return gib(self.maximum.peak_allocated_bytes)

    @property
    @in_document
    def current_memory_gb(self) -> float | None:
        """What tensors have allocated at today's batch; null if it does not fit."""
        return gib(self._fitting_now.peak_allocated_bytes) if self._fitting_now else None

    @property
    @in_document
    def waste_gb(self) -> float:
        """Memory that the largest batch leaves unused, in GiB."""
        return gib(self.waste(self.maximum).unused_bytes)

    @property
    @in_document
    def waste_percent(self) -> float:
        """Memory that the largest batch leaves unused, in percent of the target."""
        return self.waste(self.maximum).percent

    @property
    @in_document(older=None)
    def recommended_waste_gb(self) -> float | None:
        """Memory that the recommended batch leaves unused, in GiB."""
        return gib(self.waste(self.recommended).unused_bytes) if self.recommended else None

    @property
    @in_document(older=None)
    def recommended_waste_percent(self) -> float | None:
        """Memory that the recommended batch leaves unused, in percent of the target."""
        return self.waste(self.recommended).percent if self.recommended else None

    @property
    @in_document
    def current_waste_gb(self) -> float | None:
        """Memory that today's batch leaves unused, in GiB; null if it does not fit."""
        return gib(self.waste(self._fitting_now).unused_bytes) if self._fitting_now else None

    @property
    @in_document
    def current_waste_percent(self) -> float | None:
        """Memory that today's batch leaves unused, in percent of the target; null if it does not fit."""
        return self.waste(self._fitting_now).percent if self._fitting_now else None

    @property
    def _fitting_now(self) -> Trial | None:
        return self.current if self.current and self.current.fits else None

    @property
    @in_document
    def cost_savings_per_run(self) -> float | None:
        """Dollars saved by the speedup in one run."""
        return self.savings.per_run_usd if self.savings else None

    @property
    @in_document
    def cost_savings_annual(self) -> float | None:
        """Dollars saved by the speedup in a year."""
        return self.savings.per_year_usd if self.savings else None

    @property
    @in_document
    def thrashing_batch_sizes(self) -> list[int]:
        """Sizes that run but should not be used: the allocator retries at every step, or time per sample jumps."""
        return sorted(self.thrashing)

    @property
    @in_document
    def breakdown(self) -> Breakdown | None:
        """What the device held at the peak of the largest batch."""
        return self.maximum.breakdown

    @property
    @in_document
    def results(self) -> list[ResultRow]:
        """The batch sizes that were tried, smallest first."""
        return [ResultRow.of(trial) for trial in self.curve]


def predicted_interval(info: ProbeInfo, maximum: int, trials: list[Trial]) -> tuple[int, int] | None:
    """Returns the interval of a predicted maximum, or ``None`` if nothing was predicted."""
    gpu = info.gpu
    if info.source != "predicted" or gpu is None:
        return None
    return maximum_interval(maximum, trials, gpu, certain=info.certain, capped=info.capped, nccl_bytes=info.nccl_bytes)

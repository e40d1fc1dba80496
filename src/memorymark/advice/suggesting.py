"""Finds what to ask for instead if a training does not fit; each suggestion is checked by prediction."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from memorymark.advice.fitting import facts_of, fitting_steps
from memorymark.catalog import GpuEntry, all_gpus
from memorymark.devices.resolve import for_gpu, gpu_here
from memorymark.engine.analyze import least_bytes
from memorymark.engine.search import TrialLog, search_with
from memorymark.engine.site import Site
from memorymark.errors import DoesNotFitError, MemoryMarkError, StoppedError, WorkerLostError
from memorymark.events import OnEvent, StageStarted, ignore
from memorymark.probe.base import OpenProbe, Probe
from memorymark.question.change import Facts
from memorymark.question.changes import AMPERE, CHANGES, NEED_BITSANDBYTES, OFFLOADING, apply_all, level_of
from memorymark.question.limits import NO_LIMIT
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import AUTO
from memorymark.results.probe_info import ProbeInfo
from memorymark.suggestions import Suggestion

# Tracing a step takes seconds; simulating it on another GPU of the same generation takes a fraction of one. This many
# are traced besides the one that does not fit, which the worker still has.
MOST_TRACES = 8
# The option of a question that makes each change of the recipe.
OPTIONS = (
    "precision",
    "weights",
    "optimizer",
    "fused",
    "optimizer_variant",
    "optimizer_in_backward",
    "gradient_checkpointing",
    "offload",
    "keep_outputs",
    "tf32",
    "lora",
    "loss",
)


def suggest(question: Question, error: DoesNotFitError, site: Site, on_event: OnEvent) -> list[Suggestion] | None:
    """Returns what fits instead, best first: a changed recipe on the same GPU, a larger GPU, or both.

    Returns ``None`` if nothing can be predicted because the device is not in the catalog, or if a worker was lost; and
    for several GPUs, for which changes are not searched.
    """
    gpu = _gpu_of(question, error)
    if gpu is None or question.request.recipe.gpus > 1:
        return None
    lengths = sorted(question.seq_lens)
    about = question.at_length(lengths[0]) if lengths else question
    try:
        return _Suggesting(about, gpu, error, site, on_event).found()
    except WorkerLostError:  # a lost worker does not mean that nothing helps
        return None


@dataclass(frozen=True)
class _Largest:
    """The largest batch, what the GPU then holds of its total and the host, and whether some batch keeps the margin."""

    batch_size: int
    device_bytes: int
    total_bytes: int
    host_bytes: int
    keeps_margin: bool


class _Suggesting:
    """One search, with a bounded number of traces."""

    def __init__(
        self, question: Question, gpu: GpuEntry, error: DoesNotFitError, site: Site, on_event: OnEvent
    ) -> None:
        self._question, self._gpu, self._site, self._on_event = question, gpu, site, on_event
        self._today = _predicted(question.request, gpu)
        cap = self._today.target.memory_cap_bytes
        self._capacity_bytes = min(gpu.usable_bytes, cap or gpu.usable_bytes)
        self._needed_bytes = self._capacity_bytes + (error.shortfall_bytes or 0)
        self._info: ProbeInfo | None = None
        self._facts: Facts | None = None
        if error.info is not None:
            self._know(error.info)
        self._already = _trace_key(self._today, gpu)
        self._traced: set[tuple[Any, ...]] = set()
        self._checked_here: dict[tuple[str, ...], Suggestion | None] = {}

    def found(self) -> list[Suggestion]:
        """Returns everything found to fit, best first."""
        self._on_event(StageStarted("suggest", "does not fit; checking what would"))
        if self._question.compares_gpus:
            return _known(self._least_change())
        elsewhere = self._smallest_gpu(())
        is_advice = self._question.advise  # it has tried all changes
        here = self._least_change() if not is_advice else None
        tight = self._least_tight(here) if not is_advice else None
        if here is not None or (elsewhere is not None and elsewhere.without_cap and "gpu" not in elsewhere.change):
            return _known(here, tight, elsewhere)
        both = self._both(elsewhere)
        return _known(elsewhere, both, tight)

    def _both(self, elsewhere: Suggestion | None) -> Suggestion | None:
        """Returns the largest change on the smallest GPU, if that GPU is smaller than the one for today's recipe.

        Considers GPUs from Ampere on, which support bf16. A GPU that needs nothing from the host is the better advice.
        """
        if self._facts is None:
            return None
        below = elsewhere.total_bytes if elsewhere else inf
        self._facts = replace(self._facts, capability=max(self._facts.capability or AMPERE, AMPERE))
        for step in reversed(self._steps(inf)):
            largest = next((changes for changes in reversed(step) if OFFLOADING.isdisjoint(changes)), step[-1])
            found = self._smallest_gpu(largest, below_bytes=below)
            if found is not None or self._is_spent:
                return found
        return None

    def _least_change(self) -> Suggestion | None:
        """Returns the smallest change that fits the same GPU.

        Tries the largest first, then all that costs nothing together, then bisects, and at last leaves out what need
        not be saved.
        """
        steps = self._steps(self._capacity_bytes)
        best = None
        while steps and best is None and not self._is_spent:
            step, traced = steps.pop(), len(self._traced)
            best = self._here(step[-1])
            if best is None and len(self._traced) > traced and "lora" in step[-1]:
                break  # it was traced and is too large, and no other change saves more
        if best is None:
            return None
        free = [changes for one in steps for changes in one if level_of(changes)[0] == 0]
        if free and (found := self._here(free[-1])) is not None:
            return self._least_of(free[:-1], found)[0]
        costly = [one for one in steps if one[-1] not in free]
        best, index = self._least_of([one[-1] for one in costly], best)
        step = costly[index] if index < len(costly) else step
        lesser = (self._here(changes) for changes in step[:-1] if changes not in free and not self._is_spent)
        return next(filter(None, lesser), best)

    def _least_of(self, ladder: list[tuple[str, ...]], best: Suggestion) -> tuple[Suggestion, int]:
        """Bisects changes, smallest first, for the first that fits; ``best``, which follows them, does."""
        low, high = 0, len(ladder)
        while low < high and not self._is_spent:
            middle = (low + high) // 2
            less = self._here(ladder[middle])
            if less is None:
                low = middle + 1
            else:
                best, high = less, middle
        return best, high

    def _least_tight(self, roomy: Suggestion | None) -> Suggestion | None:
        """Returns the smallest change with which it trains at all, if that is smaller than the one with the margin."""
        ladder = list(dict.fromkeys(changes for step in self._steps(self._capacity_bytes) for changes in step))
        known = [changes for changes in ladder if self._checked_here.get(changes) is not None]
        if not known:
            return None
        low, high = 0, ladder.index(known[0])
        while low < high and not self._is_spent:
            middle = (low + high) // 2
            low, high = (low, middle) if self._trains_here(ladder[middle]) is not None else (middle + 1, high)
        least = next(one for changes in ladder if (one := self._checked_here.get(changes)) is not None)
        return least if least is not roomy and least.missed_margin is not None else None

    def _here(self, changes: tuple[str, ...]) -> Suggestion | None:
        found = self._trains_here(changes)
        return found if found is not None and found.missed_margin is None else None

    def _trains_here(self, changes: tuple[str, ...]) -> Suggestion | None:
        """Returns a suggestion for these changes on today's GPU, whether or not they keep the margin."""
        if changes not in self._checked_here:
            self._checked_here[changes] = self._check(changes, [self._gpu], names_gpu=False)
        return self._checked_here[changes]

    def _smallest_gpu(self, changes: tuple[str, ...], below_bytes: float = inf) -> Suggestion | None:
        """Returns the smallest GPU of the catalog that a recipe fits, trying the same GPU without its cap first.

        GPUs without a known price come last, because they may not be for rent.
        """
        is_capped = self._today.target.memory_cap_bytes is not None
        least = self._least(changes) if changes else self._needed_bytes
        request = self._changed(changes)
        needs_bf16 = request is not None and request.recipe.precision == "bf16"
        timed = [gpu for gpu in all_gpus() if not gpu.memory_only]
        order = sorted(timed, key=lambda gpu: (gpu.price is None, gpu.torch_memory_bytes))
        order.sort(key=lambda gpu: gpu.id != self._gpu.id or not is_capped)
        roomy = [
            gpu
            for gpu in order
            if gpu.usable_bytes >= least
            and (gpu.has_bf16 or not needs_bf16)
            and gpu.torch_memory_bytes < below_bytes
            and (gpu.usable_bytes > self._capacity_bytes or (is_capped and gpu.id == self._gpu.id))
        ]
        return self._check(changes, roomy, names_gpu=True)

    def _steps(self, capacity_bytes: float) -> list[list[tuple[str, ...]]]:
        """Returns the changes with which at least weights, gradients and optimizer state fit, smallest first."""
        if self._facts is None:
            return []
        must_run = self._question.request.target.gpu is None and importlib.util.find_spec("bitsandbytes") is None
        return [
            step
            for step in fitting_steps(self._today, self._facts)
            if self._least(step[-1]) <= capacity_bytes
            and not (must_run and not NEED_BITSANDBYTES.isdisjoint(step[-1]))  # it could not run
        ]

    def _least(self, changes: tuple[str, ...]) -> float:
        request = self._changed(changes)
        return least_bytes(request, self._info) if request is not None and self._info is not None else inf

    def _changed(self, changes: tuple[str, ...]) -> Request | None:
        if not changes:
            return self._today
        return None if self._facts is None else apply_all(self._today, changes, self._facts)

    @property
    def _is_spent(self) -> bool:
        return len(self._traced) >= MOST_TRACES

    def _check(self, changes: tuple[str, ...], gpus: Iterable[GpuEntry], *, names_gpu: bool) -> Suggestion | None:
        """Returns a suggestion for the first of the GPUs that the training fits with these changes.

        A GPU that is named must keep the margin, because the next has more memory.
        """
        request = self._changed(changes)
        if request is None:
            return None
        if names_gpu:  # the caller's cap belongs to today's GPU
            request = replace(request, target=replace(request.target, memory_cap_bytes=None))
        title = ", ".join(CHANGES[change].title for change in changes)
        try:
            with closing(self._predicted_on(gpus, request, title)) as places:
                for gpu, probe in places:
                    found = self._largest(probe)
                    if found is not None and (found.keeps_margin or not names_gpu):
                        return self._suggestion(request, title, gpu if names_gpu else None, found)
        except (StoppedError, WorkerLostError):
            raise
        except MemoryMarkError:
            return None  # the model refuses the change, or it cannot be predicted
        except Exception:
            if self._site.workload is None:
                raise
            return None  # a crash that a worker would have caught
        return None

    def _predicted_on(
        self, gpus: Iterable[GpuEntry], request: Request, title: str
    ) -> Generator[tuple[GpuEntry, OpenProbe], None, None]:
        """Yields the probe of a request on one GPU after the other, until the traces are used up."""
        with ExitStack() as stack:
            probe: OpenProbe | None = None
            for gpu in gpus:
                key = _trace_key(request, gpu)
                if self._is_spent and key not in (self._already, *self._traced):
                    return
                where = " on the ".join(filter(None, (title, gpu.name)))
                self._on_event(StageStarted("suggest", f"checking {where}"))
                if probe is None:
                    asked = replace(request, target=for_gpu(request.target, gpu))
                    probe = stack.enter_context(self._site.open(asked, predict_without_gpu=True))
                else:
                    probe.retarget(gpu)
                self._traced |= {key} - {self._already}
                self._know(probe.info)
                yield gpu, probe

    def _know(self, info: ProbeInfo) -> None:
        if self._info is not None:
            return
        self._info, self._facts = info, facts_of(info)
        if self._question.request.recipe.compile:  # a chunked loss runs outside the compiled model
            self._facts = replace(self._facts, large_logits=False)

    def _largest(self, probe: Probe) -> _Largest | None:
        """Returns the largest batch; ``None`` if none trains."""
        found = search_with(probe, self._question.max_batch or NO_LIMIT, TrialLog(ignore))
        if found.maximum == 0:
            return None
        safe_bytes = (1 - self._question.margin) * probe.info.capacity_bytes
        fitting = [trial for trial in found.trials if trial.fits]
        keeps = any(trial.peak_reserved_bytes <= safe_bytes for trial in (*fitting, probe.try_from_start(1)))
        at_maximum = next(trial for trial in reversed(fitting) if trial.batch_size == found.maximum)
        held_bytes = (at_maximum.device_bytes, probe.info.total_bytes, at_maximum.peak_host_bytes)
        return _Largest(found.maximum, *held_bytes, keeps)

    def _suggestion(self, request: Request, title: str, gpu: GpuEntry | None, found: _Largest) -> Suggestion:
        asked = self._question.request
        then, now = request.recipe.to_dict(), asked.recipe.to_dict()
        change: dict[str, Any] = {name: then[name] for name in OPTIONS if then[name] != now[name]}
        is_other = gpu is not None and gpu.id != self._gpu.id
        without_cap = gpu is not None and asked.target.memory_cap_bytes is not None
        if gpu is not None and is_other:
            change["gpu"] = gpu.id
            if asked.target.device != AUTO:
                change["device"] = AUTO
        if without_cap:
            change["memory_gib"] = None
        return Suggestion(
            change=change,
            recipe=title,
            gpu_name=gpu.name if gpu is not None and is_other else "",
            without_cap=without_cap,
            max_batch_size=found.batch_size,
            device_bytes=found.device_bytes,
            total_bytes=found.total_bytes,
            host_bytes=found.host_bytes,
            missed_margin=None if found.keeps_margin else self._question.margin,
        )


def _gpu_of(question: Question, error: DoesNotFitError) -> GpuEntry | None:
    """Returns the catalog's entry for the GPU that the training does not fit."""
    if question.compares_gpus:
        return max(question.gpus_compared, key=lambda gpu: gpu.usable_bytes)
    if question.request.target.gpu is not None:
        return question.request.target.entry
    if error.info is not None:
        return error.info.gpu if error.info.device_kind == "cuda" else None
    return gpu_here(question.request.target)


def _predicted(request: Request, gpu: GpuEntry) -> Request:
    """Returns the request to predict, without torch.compile, whose effect cannot be predicted."""
    return replace(request, target=for_gpu(request.target, gpu), recipe=replace(request.recipe, compile=False))


def _trace_key(request: Request, gpu: GpuEntry) -> tuple[Any, ...]:
    """Returns a key that is equal for requests that share a trace: one recipe on GPUs of one generation."""
    return request.recipe, gpu.has_bf16, gpu.capability[0] in (9, 10)


def _known(*suggestions: Suggestion | None) -> list[Suggestion]:
    return [one for one in suggestions if one is not None]

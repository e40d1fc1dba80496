"""Finds what to change: recipes are predicted first, and the best few run where the GPU is here."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from memorymark.advice.advice import Advice, Option, Refused, with_measured
from memorymark.advice.changes import AMPERE, CHANGES, Facts, apply_all
from memorymark.analysis import Analysis
from memorymark.analyzing import analyze_with, entry_of, price_of
from memorymark.devices.here import gpu_here
from memorymark.errors import CannotPredictError, DoesNotFitError, StoppedError, UsageError, WorkerError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished, ignore
from memorymark.probe import Probe, ProbeInfo
from memorymark.probe.process import KeptWorkers
from memorymark.question import Question
from memorymark.recipe import Recipe
from memorymark.request import Request
from memorymark.site import Site
from memorymark.trial import Trial
from memorymark.units import format_bytes

# In the order in which they are tried; each is kept in the recipe if it gains, and the next is tried on top of it.
FASTER = (("no_checkpointing",), ("tf32", "bf16", "fp16"), ("sdpa",), ("channels_last",), ("fused",))
# From the least change to the greatest: what makes room, alone and together. The fused optimizer makes no copies, and
# "half" is the 16-bit precision that the GPU is fast with.
FITTING = (
    ("fused",),
    ("fused", "checkpointing"),
    ("half", "fused"),
    ("half", "fused", "checkpointing"),
    ("half", "checkpointing", "adamw8bit"),
    ("half", "checkpointing", "adafactor"),
    ("lora",),
    ("lora", "half"),
    ("lora", "half", "checkpointing"),
)
HALVES = ("bf16", "fp16")
CONFIRMED = 3
# A change that costs something must gain this much to be kept; a free one must only not lose.
GAINS, LOSES_NOTHING = 1.02, 0.995
# What the batch that keeps the effective batch may be slower than the best.
KEEPS_BATCH = 0.97
SHORTEST_TOKENS = 64
# What part of a batch is tried where it turned out too large: by what it took, or where that is not known; how often.
SMALLER, SMALLER_UNSEEN, TRIES = 0.98, 0.8, 6
# What a parameter takes beside its weight and gradient, by optimizer.
STATE_BYTES = {"adamw": 8, "adam": 8, "sgd": 4, "adamw8bit": 2, "adafactor": 0, "none": 0}


def advise(question: Question, site: Site, on_event: OnEvent) -> Advice:
    """The advice for a training; ``site`` is where steps are predicted and run."""
    return _Advisor(question, site, on_event).advise()


class _Advisor:
    """One search for advice.

    ``_today`` is today's training without accumulation, which is put back where batches are split. ``_gpu`` is the GPU
    here, if the catalog knows it: candidates are predicted for it before they run on it.
    """

    def __init__(self, question: Question, site: Site, on_event: OnEvent) -> None:
        self._question, self._on_event, self._site = question, on_event, site
        self._kept = KeptWorkers(site.workers)
        recipe = question.request.recipe
        self._today = replace(question.request, recipe=replace(recipe, accumulation_steps=1))
        self._effective_batch = question.current_batch_size * recipe.accumulation_steps
        self._gpu = gpu_here(self._today.target)
        self._refused: list[Refused] = []
        self._fits_today = True
        self._info: ProbeInfo
        self._facts: Facts

    def advise(self) -> Advice:
        """Screens, confirms, compiles, sums up."""
        start = time.perf_counter()
        try:
            now, options = self._screen()
            screened = time.perf_counter()
            measured = now if now and now.source == "measured" else None
            if self._gpu is not None:
                measured, options = self._confirm(now, options)
        finally:
            self._kept.close()
        options += self._compiled(options, measured)
        options = [option for option in options if not self._loses(option, now, measured)]
        if now is None and not options:
            raise self._nothing_fits()
        done = time.perf_counter()
        return Advice(
            request=self._question.request,
            info=self._info,
            current_batch_size=self._question.current_batch_size,
            options=tuple(options),
            refused=tuple(self._refused),
            predicted=now if now and now.source == "predicted" else None,
            measured=measured,
            margin=self._question.margin,
            usage=self._question.usage,
            price=price_of(self._question, self._info),
            seconds={"screen": screened - start, "confirm": done - screened, "total": done - start},
        )

    # Screening: each candidate is analysed, predicted where that is possible.

    def _screen(self) -> tuple[Trial | None, list[Option]]:
        """Today's training, if it fits, and the options that are better."""
        self._tell("advise", "looking at today's training")
        try:
            found = self._try(())
        except CannotPredictError:
            if self._gpu is None:
                raise
            self._gpu = None  # what cannot be predicted is run instead, all of it
            found = self._try(())
        if found is None:
            self._fits_today = False
            return None, list(self._smaller())
        now, bigger_batch = found
        options = [bigger_batch] if bigger_batch.batch_size != self._question.current_batch_size else []
        options += self._faster(bigger_batch)
        return now, options

    def _faster(self, start: Option) -> Iterator[Option]:
        """Recipes that are faster than the one before, and one that takes less memory."""
        best = start
        for group in FASTER:
            better = best
            for change in group:
                option = self._option((*_named(best), change))
                if option is None:
                    continue
                enough = LOSES_NOTHING if CHANGES[change].level == 0 else GAINS
                if option.samples_per_second < enough * best.samples_per_second:
                    self._refuse(option.changes, _gains_little(option, best))
                    continue
                yield option
                if option.samples_per_second >= LOSES_NOTHING * better.samples_per_second:
                    better = option
            best = better
        if self._info.source == "predicted" and (option := self._option((*_named(best), "checkpointing"))) is not None:
            yield option

    def _smaller(self) -> Iterator[Option]:
        """Recipes that fit where today's does not, the least change first."""
        tried: dict[tuple[str, ...], bool] = {}
        for wanted in FITTING:
            named = [change for name in wanted for change in (HALVES if name == "half" else (name,))]
            changes = tuple(change for change in named if CHANGES[change].to(self._today, self._facts) is not None)
            if not changes or changes in tried:
                continue
            tried[changes] = False
            must_run = "adamw8bit" in changes and self._gpu is not None
            if must_run and importlib.util.find_spec("bitsandbytes") is None and self._is_roomy(changes):
                self._refuse(changes, "needs bitsandbytes, which is not installed.")
            elif (option := self._option(changes)) is not None:
                tried[changes] = True
                yield option
        # Cut samples are the last resort; beside a single way that fits, they are an alternative to all of its changes.
        if sum(tried.values()) < 2:
            unfit = [changes for changes, fits in tried.items() if not fits and self._is_roomy(changes)]
            yield from self._shorter(unfit[-1] if unfit else ())

    def _is_roomy(self, changes: tuple[str, ...]) -> bool:
        """Whether there is room for weights and state at least."""
        request = apply_all(self._today, changes, self._facts)
        room = self._info.capacity_bytes
        return request is not None and least_bytes(request.recipe, self._info.parameters) <= room

    def _shorter(self, changes: tuple[str, ...]) -> Iterator[Option]:
        """The longest samples that fit with some changes made."""
        tokens = self._facts.tokens // 2
        while tokens >= SHORTEST_TOKENS:
            option = self._option((*changes, "shorter"), seq_len=tokens)
            if option is not None:
                yield option
                return
            tokens //= 2

    def _option(self, changes: tuple[str, ...], seq_len: int | None = None) -> Option | None:
        """What some changes lead to; ``None``, and the reason kept, where they lead nowhere."""
        request = apply_all(self._today, tuple(c for c in changes if c != "shorter"), self._facts)
        if request is None:
            return None
        if least_bytes(request.recipe, self._info.parameters) > self._info.capacity_bytes:
            self._refuse(changes, self._why_not(request.recipe))
            return None
        try:
            found = self._try(changes, replace(request, seq_len=seq_len) if seq_len else request)
        except StoppedError:
            raise
        except (UsageError, CannotPredictError, WorkerError) as error:
            self._refuse(changes, str(error).partition("; drop")[0].rstrip(".") + ".")
            return None
        return found[1] if found else None

    def _try(self, changes: tuple[str, ...], request: Request | None = None) -> tuple[Trial | None, Option] | None:
        """A training at today's batch, if that fits, and at the batch worth using; ``None`` if it does not fit."""
        request = request or self._today
        with self._opened(self._for_screening(request)) as probe:
            if not changes:
                self._know(probe)
            question = replace(self._question, request=request, advise=False)
            try:
                found = analyze_with(question, probe, ignore, time.perf_counter())
            except DoesNotFitError:
                cut = f" with {request.seq_len} tokens." if "shorter" in changes else "."
                self._refuse(changes, self._why_not(request.recipe).removesuffix(".") + cut)
                return None
            now = found.current if found.current and found.current.fits else None
            option = self._worth_using(changes, request, found, probe)
        self._tell("advise", f"{option.title}: {option.samples_per_second:,.0f} samples/s, {option.source}")
        return now, option

    def _why_not(self, recipe: Recipe) -> str:
        least = least_bytes(recipe, self._info.parameters)
        if least > self._info.capacity_bytes:
            parts = "the frozen weights" if recipe.lora else "weights, gradients and optimizer state"
            return f"does not fit: {parts} alone take {format_bytes(least)}."
        return "does not fit even at batch 1."

    def _worth_using(self, changes: tuple[str, ...], request: Request, found: Analysis, probe: Probe) -> Option:
        best, same = found.recommended or found.maximum, self._effective_batch
        batch_size, steps = split(same, best.batch_size)
        trial = _timed(found, probe, batch_size)
        # A step that sees what it sees today is worth a little speed; where it is to be made to fit, all of it.
        if same < batch_size:
            kept = _timed(found, probe, same)
            if kept.fits and (not self._fits_today or _speed(kept) >= KEEPS_BATCH * _speed(trial)):
                batch_size, trial = same, kept
        now = found.current
        return Option(
            changes=changes or ("batch",),
            recipe=replace(request.recipe, accumulation_steps=steps, compile=self._today.recipe.compile),
            batch_size=batch_size,
            accumulation_steps=steps,
            seq_len=request.seq_len if "shorter" in changes else None,
            max_batch_size=found.max_batch_size,
            predicted=trial if trial.source == "predicted" else None,
            measured=trial if trial.source == "measured" else None,
            at_todays_batch=now.samples_per_second if now and now.fits else None,
        )

    def _for_screening(self, request: Request) -> Request:
        """The request as it is screened: predicted for the GPU here, if the catalog knows it."""
        if self._gpu is None:
            return request
        target = replace(request.target, device="auto", gpu=self._gpu.id)
        request = replace(request, target=target)
        # What will be run is screened without torch.compile, which nobody can predict; both sides of a gain are.
        return replace(request, recipe=replace(request.recipe, compile=False))

    def _know(self, probe: Probe) -> None:
        """Keeps what today's training tells of the model and the GPU."""
        self._info = info = probe.info
        gpu = entry_of(info)
        tokens = re.search(r"(\d+) tokens", info.sample)
        self._facts = Facts(
            capability=gpu.capability if gpu else (AMPERE if info.device_kind == "cuda" else None),
            tokens=int(tokens[1]) if tokens else 0,
            is_image="pixels" in info.sample,
            own_optimizer=bool(info.optimizer),
        )

    # Confirming: the best few run on the GPU.

    def _confirm(self, now: Trial | None, options: list[Option]) -> tuple[Trial | None, list[Option]]:
        """Today's training and the best options, measured; an option that does not run is dropped."""
        measured = self._measure_today() if now is not None else None
        if now is not None and measured is None:
            return None, options
        confirmed: list[Option] = []
        ranked = sorted(options, key=lambda option: -option.samples_per_second) if now is not None else options
        wanted = 1 if self._today.recipe.compile else CONFIRMED
        for option in ranked:
            if sum(one.measured is not None for one in confirmed) < wanted:
                confirmed += [run] if (run := self._run(option)) is not None else []
            else:
                confirmed.append(option)
        return measured, confirmed

    def _measure_today(self) -> Trial | None:
        self._tell("confirm", f"running today's training at batch {self._question.current_batch_size}")
        with self._opened(self._question.request) as probe:
            if probe.info.device_kind != "cuda":
                return None  # the driver knows a GPU that this torch cannot use
            self._info = replace(probe.info, unknown_operations=self._info.unknown_operations)
            trial = probe.measure(self._question.current_batch_size)
            self._on_event(TrialFinished("confirm", trial))
        return trial if trial.fits else None

    def _run(self, option: Option) -> Option | None:
        """The option as it runs: at its batch, or a smaller one that fits, or a larger one that is faster."""
        self._tell("confirm", f"running {option.title}")
        try:
            with self._opened(self._as_request(option)) as probe:
                safe_bytes = (1 - self._question.margin) * probe.info.capacity_bytes
                trial = self._largest_safe(probe, option.batch_size, safe_bytes)
                if trial is None:
                    self._refuse(option.changes, "does not run within the margin of memory.")
                    return None
                larger = min(2 * trial.batch_size, option.max_batch_size or 0)
                if option.accumulation_steps == 1 and not option.recipe.compile and larger > 1.3 * trial.batch_size:
                    other = self._measured(probe, larger)
                    is_safe = other.fits and other.peak_reserved_bytes <= safe_bytes
                    if is_safe and _speed(other) >= GAINS * _speed(trial):
                        trial = other
        except StoppedError:
            raise
        except (UsageError, WorkerError, DoesNotFitError) as error:
            self._refuse(option.changes, str(error))
            return None
        return with_measured(option, trial, self._predicted(option, trial.batch_size))

    def _largest_safe(self, probe: Probe, batch_size: int, safe_bytes: float) -> Trial | None:
        for _ in range(TRIES):
            trial = self._measured(probe, batch_size)
            if trial.fits and trial.peak_reserved_bytes <= safe_bytes and not trial.allocator_retries:
                return trial
            by_margin = SMALLER * safe_bytes / trial.peak_reserved_bytes if trial.fits else SMALLER_UNSEEN
            batch_size = max(int(min(by_margin, SMALLER) * batch_size), 1)
        return None

    def _measured(self, probe: Probe, batch_size: int) -> Trial:
        trial = probe.measure(batch_size)
        self._on_event(TrialFinished("confirm", trial))
        return trial

    def _predicted(self, option: Option, batch_size: int) -> Trial | None:
        """The prediction for the batch that was run in the end."""
        if option.predicted is None or batch_size == option.batch_size:
            return option.predicted
        one_batch = replace(self._as_request(option), recipe=replace(option.recipe, accumulation_steps=1))
        with self._opened(self._for_screening(one_batch)) as probe:
            trial = probe.measure(batch_size)
        return trial if trial.fits else None

    def _compiled(self, options: list[Option], measured: Trial | None) -> list[Option]:
        """The best option with torch.compile, which can only be run, in a worker of its own."""
        if not self._question.try_compile or self._today.recipe.compile or not options:
            return []
        if measured is None or self._info.device_kind != "cuda":
            if self._info.device_kind == "cuda":
                self._refuse(("compile",), "only a run on the GPU can tell what it gains, which is often much.")
            return []
        runs = [option for option in options if option.measured is not None]
        best = max(runs, key=lambda option: option.samples_per_second, default=None)
        if best is None:
            return []
        option = replace(
            best,
            changes=(*_named(best), "compile"),
            recipe=replace(best.recipe, compile=True),
            predicted=None,
            measured=None,
            max_batch_size=None,
            at_todays_batch=None,
        )
        found = self._run(option)
        return [found] if found is not None else []

    def _as_request(self, option: Option) -> Request:
        seq_len = option.seq_len or self._today.seq_len
        return replace(self._today, recipe=option.recipe, seq_len=seq_len)

    def _loses(self, option: Option, now: Trial | None, measured: Trial | None) -> bool:
        """Whether an option is slower than today, and so no advice; the reason is kept."""
        today, then = (measured, option.measured) if measured and option.measured else (now, option.predicted)
        if today is None or then is None or _speed(then) >= _speed(today):
            return False
        percent = 100 * (1 - _speed(then) / _speed(today))
        memory = format_bytes(then.peak_allocated_bytes)
        self._refuse(option.changes, f"loses {percent:.0f} %, {then.source}; batch {then.batch_size} takes {memory}.")
        return True

    # What all of it needs.

    @contextmanager
    def _opened(self, request: Request) -> Iterator[Probe]:
        workers = self._site.workers if request.recipe.compile else self._kept
        with replace(self._site, workers=workers).open(request, predict_without_gpu=True) as probe:
            yield probe

    def _refuse(self, changes: tuple[str, ...], why: str) -> None:
        self._refused.append(Refused(changes, why))

    def _tell(self, stage: Stage, message: str) -> None:
        self._on_event(StageStarted(stage, message))

    def _nothing_fits(self) -> DoesNotFitError:
        name, capacity = self._question.request.entry.name, format_bytes(self._info.capacity_bytes)
        last = self._refused[-1]  # the greatest change of all
        return DoesNotFitError(
            f"{name} fits {capacity} by none of the {len(self._refused)} ways looked at: even with {last.title} it "
            f"{last.why.removesuffix('.')}; weights in 4 bits (QLoRA) are not covered, or take a larger GPU."
        )


def split(effective_batch: int, largest: int) -> tuple[int, int]:
    """A batch and the accumulation steps that make up an effective batch; a larger batch takes no steps.

    Where no equal parts come near the largest batch, the effective one grows by a few samples.
    """
    if largest >= effective_batch:
        return largest, 1
    even = max(size for size in range(1, largest + 1) if effective_batch % size == 0)
    if 2 * even >= largest:
        return even, effective_batch // even
    steps = -(-effective_batch // largest)
    return -(-effective_batch // steps), steps


def least_bytes(recipe: Recipe, parameters: int) -> int:
    """What weights, gradients and the optimizer's state take at least, however small the batch."""
    if recipe.lora:
        return parameters * (2 if recipe.precision in ("bf16", "fp16") else 4)
    return parameters * (4 + 4 + STATE_BYTES[recipe.optimizer])


def _named(option: Option) -> tuple[str, ...]:
    """The changes but for that of the batch, which every recipe brings."""
    return tuple(change for change in option.changes if change != "batch")


def _gains_little(option: Option, before: Option) -> str:
    percent = 100 * (option.samples_per_second / before.samples_per_second - 1)
    return f"{'gains' if percent >= 0 else 'loses'} {abs(percent):.1f} %, {option.source}."


def _timed(found: Analysis, probe: Probe, batch_size: int) -> Trial:
    """The trial at a batch size with its speed, run or predicted now if it was not yet."""
    trial = found.at(batch_size)
    return trial if trial is not None and trial.samples_per_second else probe.measure(batch_size)


def _speed(trial: Trial) -> float:
    return trial.samples_per_second or 0.0

"""The probe that runs real steps on a real device."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd

from memorymark.catalog import match_gpu
from memorymark.devices import Device
from memorymark.devices.allocations import PHASES_OF_STEP, Owner, Phase, Trace, peak_breakdown
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.host_memory import HostMeter
from memorymark.devices.segments import Segment
from memorymark.errors import DoesNotFitError
from memorymark.messages import Message
from memorymark.prediction.memory.forecast import forecast_maximum
from memorymark.prediction.memory.growing_step import RecordedStep
from memorymark.prediction.tracing.places import Places
from memorymark.probe.explaining import anatomy_of
from memorymark.probe.recording import history_of, record_step
from memorymark.probe.unmeasurable import check_device, check_own_model, does_not_fit, not_compiled_on
from memorymark.question.recipe import Recipe
from memorymark.results.explanation import Anatomy
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Breakdown, Failure, Trial
from memorymark.training.building import build_on
from memorymark.training.compiled_code import refusing_compiled
from memorymark.training.facts import facts_of
from memorymark.training.failures import classify
from memorymark.training.guard import unharmed
from memorymark.training.optimizers import move_state, own_optimizers
from memorymark.training.sharding import alone_of_many, require_spreadable, spread_over
from memorymark.training.step import TrainingStep, prepare_model, runs_compiled_code
from memorymark.training.timing import time_until_steady
from memorymark.training.workload import Workload
from memorymark.units import MIB, format_bytes

# Two steps show whether a size fits: the optimizer's state appears in the first.
QUICK_STEPS = 2
FULL_STEPS = 3
# cuBLAS and cuDNN keep workspaces that did not exist before the first step.
WORKSPACE_ALLOWANCE_BYTES = 256 * MIB


class MeasuredProbe:
    """Runs complete training steps and reads the device's own counters.

    Set ``preserve`` for a model that the caller continues to use: its weights, mode and torch's random state survive.
    ``allocator`` sets the device's allocator, which stays so until another probe changes it. Use as a context manager;
    ``clean`` turns false when a failed trial leaves memory behind.
    """

    def __init__(
        self,
        workload: Workload,
        recipe: Recipe,
        device: Device,
        *,
        preserve: bool = False,
        allocator: AllocatorKind = "default",
    ) -> None:
        self.clean = True
        self._device, self._recipe = device, recipe
        check_device(recipe, device)
        self._host = HostMeter.of_this_machine()
        device.use_allocator(allocator)
        device.start_over()  # free what another probe in this process left behind
        self._stack = ExitStack()
        with ExitStack() as stack:
            stack.enter_context(alone_of_many(recipe))
            self._step = self._preserved(workload, stack) if preserve else self._build(workload)
            if device.kind != "cuda" and runs_compiled_code(self._step.model):
                raise not_compiled_on(device, "pass the model as it was before torch.compile")
            self._stack = stack.pop_all()
        self._baseline_bytes = device.reading().requested_bytes
        self._completed = False
        self._recording = True
        self._recordings: list[RecordedStep] = []
        self._layout: list[Segment] = []
        self.info = _info_of(self._step, device)

    def __enter__(self) -> MeasuredProbe:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @contextmanager
    def _running(self) -> Iterator[None]:
        device = self._device
        refused = nullcontext() if device.kind == "cuda" else refusing_compiled(partial(not_compiled_on, device))
        with device.counting(), refused:
            yield

    def feed(self, workload: Workload) -> None:
        """Continues with another workload's batches for the same model; earlier recordings do not apply to them."""
        self._step.workload = replace(self._step.workload, batch=workload.batch)
        self._recording, self._recordings, self._layout = True, [], []
        self._start_over()
        self.info = replace(
            self.info,
            capacity_bytes=self._device.capacity_bytes(),
            sample=workload.sample,
            sample_sizes=dict(workload.sample_sizes),
            sequences=workload.sequences,
            mean_tokens=workload.mean_tokens,
        )

    def keep_outputs(self, keep: bool) -> None:
        """Continues with the loop that keeps the model's outputs, or that drops them."""
        self._recipe = self._step.recipe = replace(self._recipe, keep_outputs=keep)
        self._recording, self._recordings, self._layout = True, [], []
        self._start_over()

    def try_batch(self, batch_size: int) -> Trial:
        """Two steps: does it fit, and at what peak?"""
        return self._run(batch_size, QUICK_STEPS, in_full=False)

    def forecast(self) -> int | None:
        """Returns the largest batch that fits, by replaying the last two trials; ``None`` if they do not allow that.

        Trials are recorded until there is an answer.
        """
        if len(self._recordings) < 2:
            return None
        smaller, larger = sorted(self._recordings[-2:], key=lambda recording: recording.batch_size)
        device, capacity_bytes = self._device, self._device.capacity_bytes()
        capped = capacity_bytes == device.cap_bytes
        maximum = forecast_maximum(
            smaller, larger, self._layout, capacity_bytes, allocator=device.allocator, capped=capped
        )
        self._recording = maximum is None
        return maximum

    def second_batch(self) -> int | None:
        """Returns twice the first size; ``None`` if cuDNN may choose other algorithms at larger sizes."""
        if len(self._recordings) != 1 or self._has_layers(_ConvNd, nn.RNNBase):
            return None
        return 2 * self._recordings[0].batch_size

    def try_from_start(self, batch_size: int) -> Trial:
        """Three steps of a training that starts with this size: does it fit?"""
        self._start_over()
        return self._run(batch_size, FULL_STEPS, in_full=False)

    def measure(self, batch_size: int) -> Trial:
        """Runs three steps with their peaks, records one for the breakdown, then times steps until steady."""
        self._start_over()
        return self._run(batch_size, FULL_STEPS, in_full=True)

    def explain(self, batch_size: int) -> Anatomy:
        """Measures, then records one more step with what runs in it."""
        trial = self.measure(batch_size)
        if trial.failure is not None:
            raise does_not_fit(batch_size, trial.failure)
        places = Places(self._step.models())
        seen = None if self._recipe.compile else places  # to look into compiled code would change it
        with self._running():
            trace, owners = record_step(self._step, self._device, batch_size, lambda _: None, seen)
            self._step.drop_outputs()
        trial = replace(trial, breakdown=self._breakdown(trial, trace, owners))
        return anatomy_of(trial, trace, owners, places.modules, self.info.vocabulary)

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """Returns the allocator's own history of three steps."""
        self._start_over()
        try:
            with self._running():
                return history_of(self._device, lambda: self._step(batch_size), FULL_STEPS)
        finally:
            self._step.drop_outputs()

    def phase_peaks(self, batch_size: int) -> dict[str, int]:
        """Returns the peak allocated bytes of a no_grad forward pass, forward and backward, and a full step."""
        runs: dict[str, Callable[[int], None]] = {
            "forward": self._step.forward_only,
            "forward_backward": self._step.forward_and_backward,
            "full_step": self._step,
        }
        return {name: self._peak_of(run, batch_size) for name, run in runs.items()}

    def _peak_of(self, run: Callable[[int], None], batch_size: int) -> int:
        failure: Failure | None = None
        try:
            with self._running():
                run(batch_size)  # the first call may leave workspaces or optimizer state behind
                self._device.reset()
                run(batch_size)
                return self._device.reading().peak_allocated_bytes
        except Exception as error:
            failure = classify(error)
            if failure is None:
                raise
        raise does_not_fit(batch_size, failure)

    def _preserved(self, workload: Workload, stack: ExitStack) -> TrainingStep:
        """Returns the step of the caller's own model, which is used in place and restored at the end."""
        check_own_model(self._recipe)
        model, device = workload.build(), self._device.torch_device
        optimizers = own_optimizers(workload.optimizer, model) if workload.optimizer else []
        stack.enter_context(unharmed(model, optimizers, runs_on=device))
        workload = replace(workload, optimizer=lambda _: optimizers) if optimizers else workload

        def on_device() -> nn.Module:
            moved = prepare_model(model.to(device), self._recipe)
            move_state(optimizers)
            return moved

        return self._build(workload, on_device)

    def _build(self, workload: Workload, model: Callable[[], nn.Module] | None = None) -> TrainingStep:
        device = self._device
        try:
            with device.counting():
                built, wrapper = model() if model is not None else None, None
                if self._recipe.gpus > 1:
                    built, wrapper = self._spread(workload)
                step = TrainingStep(
                    workload,
                    self._recipe,
                    device.torch_device,
                    model=built,
                    wrapper=wrapper,
                    arrived=device.arrived,
                    host=self._host,
                )
                step.look_at_generation()
                device.adopt((*step.weights(), *step.optimizer_state()))
                return step
        except Exception as error:
            failure = classify(error)
            if failure is None:
                raise
        raise DoesNotFitError(
            f"the weights of {workload.name} alone exceed the {format_bytes(device.capacity_bytes())} available on "
            f"the {device.name}",
            failure.shortfall_bytes,
            hint=Message("allow more with {memory_gib}, or take a larger GPU"),
        )

    def _spread(self, workload: Workload) -> tuple[nn.Module, nn.Module | None]:
        """Returns the model as one of several ranks has it, and the wrapper that is called in its place."""
        require_spreadable(workload, self._recipe)
        on = self._device.torch_device
        model = prepare_model(build_on(on, workload, self._recipe), self._recipe)
        wrapper, _ = spread_over(model, self._recipe, on)
        return model, wrapper

    def _start_over(self) -> None:
        """Resets to where a training script starts; the size of the first step decides how memory fragments."""
        self._step.start_over()
        self._device.start_over()

    def _run(self, batch_size: int, steps: int, *, in_full: bool) -> Trial:
        self._device.reset()
        self._host.reset_peak()
        layout = self._device.layout() if self._recording else None
        meter = _PeakMeter(self._device)
        failure: Failure | None = None
        try:
            with self._running():
                for _ in range(steps - 1):
                    self._step(batch_size, meter.on_phase)
                    meter.steps += 1
                if in_full or layout is not None:
                    trace, owners = record_step(self._step, self._device, batch_size, meter.on_phase)
                else:
                    self._step(batch_size, meter.on_phase)
                meter.steps += 1
                time = self._timed(batch_size) if in_full else {}
                self._device.synchronize()
                self._step.drop_outputs()
        except Exception as error:
            failure = classify(error)
            if failure is None:
                raise
        # Outside the except clause: the exception's frames hold the step's tensors and must be gone before the cleanup.
        trial = replace(
            meter.trial(batch_size, failure),
            peak_host_bytes=self._host.peak_bytes,
            tokens_per_sample=self.info.tokens_per_sample,
            kv_cache_bytes=self.info.cached_bytes(batch_size * self._recipe.accumulation_steps),
            gpus=self._recipe.gpus,
            strategy=self._recipe.used_strategy,
            tensor_parallel=self._recipe.tensor_parallel,
        )
        if failure is not None:
            self._clean_up()
            return trial
        self._completed = True
        self._baseline_bytes = self._device.reading().requested_bytes
        if layout is not None:
            self._layout = layout
            limit_bytes = self._device.scratch_limit_bytes()
            self._recordings.append(RecordedStep(batch_size, trace, self._has_layers(_ConvNd), limit_bytes))
        return replace(trial, breakdown=self._breakdown(trial, trace, owners), **time) if in_full else trial

    def _has_layers(self, *kinds: type[nn.Module]) -> bool:
        return any(isinstance(module, kinds) for module in self._step.model.modules())

    def _timed(self, batch_size: int) -> dict[str, Any]:
        time = time_until_steady(lambda count: self._device.time_steps(lambda: self._step.alone(batch_size), count))
        samples = batch_size * self._recipe.accumulation_steps * self._recipe.data_parallel
        return {
            "step_seconds": time.seconds,
            "step_seconds_spread": time.spread,
            "samples_per_second": samples / time.seconds,
        }

    def _breakdown(self, trial: Trial, trace: Trace, owners: dict[Hashable, Owner]) -> Breakdown:
        return peak_breakdown(trace, owners, trial.peak_allocated_bytes).on_device(
            reserved_bytes=trial.peak_reserved_bytes,
            device_bytes=trial.device_bytes,
            other_processes_bytes=self._device.other_processes_bytes,
        )

    def _clean_up(self) -> None:
        self._step.recover()
        self._device.reset()
        if not self._at_baseline():
            gc.collect()  # slow with many modules loaded, and needed only if the step left cycles behind
            self._device.reset()
        self.clean = self._at_baseline()

    def _at_baseline(self) -> bool:
        workspaces_missing = self._device.kind == "cuda" and not self._completed
        allowed = self._baseline_bytes + (WORKSPACE_ALLOWANCE_BYTES if workspaces_missing else 0)
        return self._device.reading().requested_bytes <= allowed


class _PeakMeter:
    """Collects peaks phase by phase."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.steps = 0
        self.peak_allocated_bytes = 0
        self.peak_reserved_bytes = 0
        self._phase_peak_bytes: dict[Phase, int] = {}
        self._retries_after_first_step = device.reading().allocator_retries

    def on_phase(self, phase: Phase) -> None:
        reading = self._device.reading()
        self._device.reset_peaks()
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, reading.peak_allocated_bytes)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, reading.peak_reserved_bytes)
        self._phase_peak_bytes[phase] = max(self._phase_peak_bytes.get(phase, 0), reading.peak_allocated_bytes)
        if self.steps == 0:
            self._retries_after_first_step = reading.allocator_retries

    def trial(self, batch_size: int, failure: Failure | None) -> Trial:
        self.on_phase("optimizer")  # everything after the last phase: timed steps, or part of a failed one
        reading = self._device.reading()
        outside_bytes = self._device.held_bytes() - reading.reserved_bytes
        return Trial(
            batch_size=batch_size,
            fits=failure is None,
            steps=self.steps,
            peak_allocated_bytes=self.peak_allocated_bytes,
            peak_reserved_bytes=self.peak_reserved_bytes,
            forward_peak_bytes=self._phase_peak_bytes.get("forward", 0),
            backward_peak_bytes=self._phase_peak_bytes.get("backward", 0),
            generation_peak_bytes=self._phase_peak_bytes.get("generation", 0),
            optimizer_peak_bytes=self._phase_peak_bytes.get("optimizer", 0),
            between_peak_bytes={
                name: peak for name, peak in self._phase_peak_bytes.items() if name not in PHASES_OF_STEP
            },
            resting_bytes=reading.allocated_bytes,
            device_bytes=self.peak_reserved_bytes + outside_bytes,
            allocator_retries=reading.allocator_retries - self._retries_after_first_step,
            failure=failure,
        )


def _info_of(step: TrainingStep, device: Device) -> ProbeInfo:
    gpu = match_gpu(device.name, device.total_bytes) if device.kind == "cuda" else None
    return ProbeInfo(
        device_kind=device.kind,
        device_name=device.name,
        gpu_id=gpu.id if gpu is not None else None,
        total_bytes=device.total_bytes,
        capacity_bytes=device.capacity_bytes(),
        capped=device.cap_bytes is not None,
        **asdict(facts_of(step)),
    )

"""The detector: told of batches, forward passes and optimizer steps, it learns how a training goes.

It knows neither who tells it nor how the script is made. Nothing it does waits for the GPU, grows with the number of
steps or raises: what goes wrong inside ends the watching, not the training.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from memorymark.integrations.batches import BatchSize, size_of
from memorymark.integrations.observation import DeviceFacts, Ending, LoaderFacts, MemoryFacts, ModelFacts, Observation
from memorymark.integrations.recording import StepRecording
from memorymark.integrations.statistics import StepSums, count_up

if TYPE_CHECKING:
    import torch
    from torch import nn

    from memorymark.integrations.gpu import GpuWatch
    from memorymark.trace import Owner, Trace

Arguments = ParamSpec("Arguments")

# The first steps fill caches, choose kernels and make the optimizer's state.
WARM_UP_STEPS = 2
RECORD_AFTER_STEPS = 3
MAX_RECORDINGS = 4
# A recording of a shorter batch is worth replacing by one that is longer by this factor.
WORTH_RECORDING_AGAIN = 1.1
READ_MEMORY_EVERY_SECONDS = 0.2


def _harmless(
    method: Callable[Concatenate[Detector, Arguments], None],
) -> Callable[Concatenate[Detector, Arguments], None]:
    """Nothing that goes wrong in the detector reaches the script."""

    @functools.wraps(method)
    def guarded(self: Detector, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if not self.active:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.active = False
            self.problem = f"{type(error).__name__}: {error}"

    guarded._torchdynamo_disable = True  # type: ignore[attr-defined] # compiled code calls it as it is
    return guarded


class PrivateHook:
    """A hook of a module that stays behind when the script copies or saves the module."""

    _torchdynamo_disable = True

    def __init__(self, hook: Callable[..., None]) -> None:
        self._hook = hook

    def __call__(self, *args: Any) -> None:
        self._hook(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        # Something of Python's own that takes any arguments and does nothing: a saved model must load without us.
        return getattr, (nullcontext(), "__exit__")


class Detector:
    """Learns from a training while it runs; ``observation`` says what it knows so far.

    ``on_step`` is called after each optimizer step, for whoever writes the observation down. ``clock`` gives seconds.
    """

    def __init__(
        self,
        on_step: Callable[[Detector], None] | None = None,
        *,
        other_processes_bytes: Callable[[int], int] = lambda _: 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.active = True
        self.problem: str | None = None
        self.gpu: GpuWatch | None = None
        self._on_step, self._clock, self._others = on_step, clock, other_processes_bytes
        self._thread: int | None = None
        self._optimizers: list[torch.optim.Optimizer] = []
        self._roots: list[nn.Module] = []
        self._hooks: list[Any] = []
        self._called: dict[int, nn.Module] = {}
        self._depth = 0
        self._learn_roots = False
        self._steps = self._samples = self._timed = 0
        self._started = self._last_update = self._stopped_at = 0.0
        self._sums: dict[int, StepSums] = {}
        self._sizes: Counter[int] = Counter()
        self._loader: LoaderFacts | None = None
        self._autocast: str | None = None
        self._device: DeviceFacts | None = None
        self._memory: MemoryFacts | None = None
        self._memory_read_at = 0.0
        self._recording: StepRecording | None = None
        self._recorded_elements = 0
        self._recordings = 0
        self._owners: dict[int, Owner] = {}
        self._ending: Ending | None = None
        self._model: ModelFacts | None = None
        self._loading_since: float | None = None
        self._new_step()

    def _new_step(self) -> None:
        self._batches = self._step_samples = 0
        self._forwards: Counter[int] = Counter()
        self._waiting = self._between = 0.0

    # --- what it is told

    @_harmless
    def loading(self) -> None:
        """The data loader is asked for a batch."""
        if not self._concerns():
            return
        if self.gpu is not None and self.gpu.usable():
            self.gpu.clock.begin()
        self._loading_since = self._clock()

    @_harmless
    def loaded(self, batch: Any, loader: Any = None) -> None:
        """The data loader has given a batch; ``None`` if it had no more."""
        if self._loading_since is None:
            return
        self._waiting += self._clock() - self._loading_since
        self._loading_since = None
        if self.gpu is not None and self.gpu.usable():
            self.gpu.clock.end()
        if batch is None:
            return
        self._batches += 1
        if self._loader is None and loader is not None:
            self._loader = _describe_loader(loader)
        size = size_of(batch)
        if size is not None:
            self._step_samples += size.samples
            count_up(self._sizes, size.samples)
            if self._batches == 1:
                self._consider_recording(size)

    @_harmless
    def forward_begins(self, inputs: Any, module: int = 0) -> None:
        """A module that nobody else calls begins its forward pass, for training; ``module`` tells several apart."""
        if not self._concerns():
            return
        if self._loader is not None:
            return
        first = not self._forwards
        self._forwards[module] += 1
        if first and self._steps:
            self._between += self._clock() - self._last_update
            if self.gpu is not None and self.gpu.usable():
                self.gpu.clock.end()
        size = size_of(inputs)
        if size is not None and module == next(iter(self._forwards)):
            self._step_samples += size.samples
            count_up(self._sizes, size.samples)
            if first:
                self._consider_recording(size)

    @_harmless
    def forward_ends(self) -> None:
        """It has ended."""
        if self.gpu is not None and self.gpu.recording and self._concerns():
            self.gpu.mark("forward")

    @_harmless
    def entered_autocast(self, device_type: str, dtype: torch.dtype | None, *, enabled: bool) -> None:
        """Some operations run in another precision from here on."""
        if enabled and dtype is not None and (self._device is None or device_type == self._device.kind):
            self._autocast = str(dtype).removeprefix("torch.")

    @_harmless
    def updating(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins its step: the backward pass is over."""
        if self.gpu is not None and self.gpu.recording:
            self.gpu.mark("backward")
            self._note_owners()

    @_harmless
    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has ended its step. The first optimizer that was seen is the one that counts steps."""
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)
        if self.gpu is not None and self.gpu.recording:
            self.gpu.mark("optimizer")
        if optimizer is not self._optimizers[0]:
            return
        now = self._clock()
        self._thread = threading.get_ident()
        if self._steps == 0:
            self._started = now
            self._first_step()
        seconds = now - self._last_update
        if self._steps >= WARM_UP_STEPS:
            # Where several modules take turns, as in a GAN, the one called least says how often.
            kind = self._batches if self._loader is not None else min(self._forwards.values(), default=0)
            if kind in self._sums or len(self._sums) < 16:
                self._sums.setdefault(kind, StepSums()).add(seconds, self._waiting, self._between, self._step_samples)
        elif self._steps == WARM_UP_STEPS - 1 and self.gpu is not None and self.gpu.usable():
            self.gpu.clock.reset()
        self._steps += 1
        self._samples += self._step_samples
        self._last_update = self._stopped_at = now
        self._new_step()
        if self._steps >= 2:
            self._settle_roots()
        self._look_at_gpu(now, seconds)
        if self._on_step is not None:
            self._on_step(self)

    def ended(self, error: BaseException | None) -> None:
        """The training is over, perhaps by an exception."""
        if error is not None:
            self._ending = _describe_ending(error)
        if self.gpu is not None:
            self._end_gpu(self.gpu)
        self._remove_hooks()
        if self._optimizers:
            self._describe_model()
        self.active = False

    def forked(self) -> None:
        """This is a child of the watched process now, whose work is none of the detector's business."""
        self.active = False
        self._on_step = None

    # --- what it does about it

    def _concerns(self) -> bool:
        """Evaluation and threads that prepare batches are not the training."""
        import torch

        thread = self._thread or threading.main_thread().ident
        return torch.is_grad_enabled() and threading.get_ident() == thread

    def _first_step(self) -> None:
        from memorymark.integrations.modules import hookable, outermost_modules, parameters_of

        parameters = parameters_of(self._optimizers)
        device = next((p.device for p in parameters), None)
        if device is not None and device.type == "cuda":
            from memorymark.integrations.gpu import GpuWatch

            index = device.index or 0
            self.gpu = GpuWatch(device, self._others(index))
            self._device = self.gpu.facts()
        elif device is not None:
            self._device = DeviceFacts(kind=device.type, name=device.type.upper())
        self._roots = outermost_modules(parameters)
        self._describe_model()
        if self._loader is None or self.gpu is not None:
            self._hook(hookable(self._roots))
            self._learn_roots = True

    def _describe_model(self) -> None:
        from memorymark.integrations.modules import describe_model, parameters_of

        modules = list(self._called.values()) or self._roots
        self._model = describe_model(modules, parameters_of(self._optimizers))

    def _hook(self, modules: list[nn.Module]) -> None:
        for module in modules:
            before, after = PrivateHook(self._before_forward), PrivateHook(self._after_forward)
            self._hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
            self._hooks.append(module.register_forward_hook(after, always_call=True))

    def _before_forward(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth == 1 and module.training:
            if self._learn_roots:
                self._called[id(module)] = module
            self.forward_begins((*args, *kwargs.values()), id(module))

    def _after_forward(self, module: nn.Module, _args: Any, _output: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and module.training:
            self.forward_ends()

    def _settle_roots(self) -> None:
        """After a step with hooks on many modules, only those stay that were called from outside."""
        self._depth = 0
        if self._learn_roots:
            self._learn_roots = False
            self._remove_hooks()
            self._hook(list(self._called.values()))
            self._describe_model()
        elif self._hooks and self._loader is not None and not self._wants_recordings():
            self._remove_hooks()

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _look_at_gpu(self, now: float, seconds: float) -> None:
        if self.gpu is None or not self.gpu.usable():
            return
        if self._loader is None:
            self.gpu.clock.begin()
        self.gpu.sampler.stepped(seconds)
        if self._steps <= RECORD_AFTER_STEPS or now - self._memory_read_at > READ_MEMORY_EVERY_SECONDS:
            self._memory = self.gpu.memory(settled=self._steps >= WARM_UP_STEPS)
            self._memory_read_at = now

    # --- the recorded step

    def _wants_recordings(self) -> bool:
        return self._recordings < MAX_RECORDINGS and self._steps <= 200 * MAX_RECORDINGS

    def _consider_recording(self, size: BatchSize) -> None:
        """At the first batch of a step: a recording ends here, and the next may begin."""
        gpu = self.gpu
        if gpu is None or self._steps < RECORD_AFTER_STEPS or not gpu.usable():
            return
        if gpu.recording:
            self._finish_recording(gpu)
        elif self._wants_recordings() and size.elements >= WORTH_RECORDING_AGAIN * self._recorded_elements:
            if gpu.start_recording():
                self._recordings += 1
                self._recorded_size = size
                self._owners = {}
            else:
                self._recordings = MAX_RECORDINGS

    def _finish_recording(self, gpu: GpuWatch) -> None:
        trace = gpu.finish_recording()
        if trace is None or not self._owners:
            return
        micro_batches = max((step for step in self._sums), key=lambda kind: self._sums[kind].steps, default=1)
        self._recording = self._made(trace, self._recorded_size.samples, max(micro_batches, 1), gpu)
        self._recorded_elements = self._recorded_size.elements

    def _note_owners(self) -> None:
        from memorymark.integrations.gpu import keys_of
        from memorymark.integrations.modules import optimizer_state, parameters_of

        parameters = parameters_of(self._optimizers)
        held = [tensor for root in self._roots for tensor in (*root.parameters(), *root.buffers())]
        self._owners |= keys_of((*held, *parameters), "weights")
        self._owners |= keys_of((p.grad for p in parameters if p.grad is not None), "gradients")
        self._owners |= keys_of(optimizer_state(self._optimizers), "optimizer_state")

    def _made(self, trace: Trace, batch_size: int, micro_batches: int, gpu: GpuWatch) -> StepRecording:
        from memorymark.integrations.modules import parameters_of

        parameters = [p for p in parameters_of(self._optimizers) if p.requires_grad]
        counts: Counter[int] = Counter(p.numel() for p in parameters)
        before: dict[int, int] = {int(str(key)): size for key, size in sorted(trace.before.items(), key=_address)}
        events: list[tuple[int, int]] = [(int(str(key)), size) for key, size in trace.events]
        ends = [end for phase, end in trace.marks if phase == "backward"]
        last: dict[int, int] = {}
        for index, (key, size) in enumerate(events[: ends[-1] if ends else None]):
            if size > 0 and key in self._owners:
                last[key] = index
            elif size < 0:
                last.pop(key, None)
        convolutions = any(p.dim() > 2 for p in parameters)
        item_bytes = max((p.element_size() for p in parameters), default=4)
        return StepRecording(
            batch_size=batch_size,
            micro_batches=micro_batches,
            before=before,
            events=events,
            marks=list(trace.marks),
            owners_before={key: owner for key, owner in self._owners.items() if key in before},
            owners_made={index: self._owners[key] for key, index in last.items()},
            parameters=dict(counts),
            item_bytes=item_bytes,
            cast_bytes=2 if self._autocast in ("bfloat16", "float16") and item_bytes > 2 else None,
            scratch_limit_bytes=None if convolutions else gpu.scratch_limit_bytes(),
        )

    def _end_gpu(self, gpu: GpuWatch) -> None:
        gpu.sampler.stop()
        try:
            self._memory = gpu.memory(settled=True)
            gpu.clock.collect()
            if gpu.recording and self._ending is None:
                self._finish_recording(gpu)
            else:
                gpu.finish_recording()
        except Exception as error:  # after a CUDA error nothing can be asked any more
            self.problem = self.problem or f"{type(error).__name__}: {error}"

    # --- what is known

    def observation(self) -> Observation:
        """All that is known now."""
        import torch

        from memorymark.integrations.modules import describe_optimizer

        sums = max(self._sums.values(), key=lambda sums: sums.steps, default=None)
        kind = next((kind for kind, those in self._sums.items() if those is sums), 1)
        batch_size = self._sizes.most_common(1)[0][0] if self._sizes else None
        gpu = self.gpu
        idle = None
        if gpu is not None and gpu.clock.gaps:
            gaps_per_step = max(kind, 1) if self._loader is not None else 1
            idle = gpu.clock.seconds / gpu.clock.gaps * gaps_per_step
        sampled = gpu.sampler.samples if gpu is not None else 0
        return Observation(
            steps=self._steps,
            samples=self._samples,
            seconds=self._stopped_at - self._started,
            batch_size=batch_size,
            micro_batches=max(kind, 1),
            timed_steps=sums.steps if sums else 0,
            step_seconds=sums.seconds / sums.steps if sums else None,
            median_step_seconds=sums.median_seconds if sums else None,
            waiting_seconds=sums.waiting_seconds / sums.steps if sums and self._loader is not None else None,
            between_seconds=sums.between_seconds / sums.steps if sums and self._loader is None else None,
            gpu_idle_seconds=idle,
            busy=gpu.sampler.busy / sampled if gpu is not None and sampled else None,
            power=(gpu.sampler.power / sampled or None) if gpu is not None and sampled else None,
            autocast=self._autocast,
            tf32=_tf32(torch),
            device=self._device,
            model=self._model,
            optimizers=[describe_optimizer(optimizer) for optimizer in self._optimizers],
            loader=self._loader,
            memory=self._memory,
            recording=self._recording,
            torch_imported=True,
            framework=_framework(),
            processors=_processors(),
            ending=self._ending,
            problem=self.problem,
        )


def _address(entry: tuple[Any, int]) -> int:
    return int(entry[0])


def _describe_loader(loader: Any) -> LoaderFacts:
    return LoaderFacts(
        num_workers=int(getattr(loader, "_num_workers", 0)),
        pin_memory=bool(getattr(loader, "_pin_memory", False)),
        persistent_workers=bool(getattr(loader, "_persistent_workers", False)),
        prefetch_factor=getattr(loader, "_prefetch_factor", None),
    )


def _describe_ending(error: BaseException) -> Ending:
    memory = False
    if "torch" in sys.modules:
        from memorymark.failures import classify

        failure = classify(error)
        memory = failure is not None and failure.kind == "memory"
    lines = str(error).strip().splitlines()
    return Ending(kind=type(error).__name__, message=lines[0] if lines else "", out_of_memory=memory)


def _tf32(torch: Any) -> bool:
    """Whether matrix products may use TF32; torch refuses the old way of asking where the script set it the new way."""
    try:
        return bool(torch.get_float32_matmul_precision() != "highest")
    except RuntimeError:
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def _framework() -> str | None:
    loops = {"transformers.trainer": "transformers", "lightning.pytorch": "lightning", "pytorch_lightning": "lightning"}
    return next((name for module, name in loops.items() if module in sys.modules), None)


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1

"""The detector: told of batches, forward passes and optimizer steps, it learns how a training goes.

It knows neither who tells it nor how the script is made. Nothing it does waits for the GPU, grows with the number of
steps or raises: what goes wrong inside ends the watching, not the training.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch
from torch import nn

from memorymark.integrations.batches import BatchSize, size_of, size_of_arguments
from memorymark.integrations.feeds import Feeds
from memorymark.integrations.modules import (
    any_trains,
    describe_model,
    describe_optimizer,
    outermost_modules,
    parameters_of,
)
from memorymark.integrations.observation import (
    DeviceFacts,
    Ending,
    LoaderFacts,
    MemoryFacts,
    ModelFacts,
    Observation,
    OptimizerFacts,
)
from memorymark.integrations.roots import RootHooks
from memorymark.integrations.statistics import StepSums, count_up
from memorymark.integrations.step_recorder import StepRecorder
from memorymark.integrations.surroundings import (
    describe_ending,
    describe_host,
    describe_loader,
    framework,
    processors,
    uses_tf32,
)
from memorymark.integrations.weak import WeakList

# The first steps fill caches, choose kernels and make the optimizer's state.
WARM_UP_STEPS = 3
# A first optimizer that takes no step while one other takes so many has done its work.
OTHERS_TAKE_OVER = 8
READ_MEMORY_EVERY_SECONDS = 1.0
KINDS_OF_STEPS = 16
# From fewer samples of the driver than this, nothing follows.
ENOUGH_SAMPLES = 5
MOST_MICRO_BATCHES = 1024

Method = TypeVar("Method", bound=Callable[..., None])


def _harmless(method: Method) -> Method:
    """Nothing that goes wrong in the detector reaches the script."""

    @functools.wraps(method)
    def guarded(self: Detector, *args: Any, **kwargs: Any) -> None:
        if not self.active:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self._give_up(error)

    guarded._torchdynamo_disable = True  # type: ignore[attr-defined] # compiled code calls it as it is
    return guarded  # type: ignore[return-value]


class Detector:
    """Learns from a training while it runs; ``observation`` says what it knows so far.

    ``on_step`` is called after each optimizer step, for whoever writes the observation down. ``open_gpu`` gives what
    watches the GPU of a device. ``clock`` gives seconds.
    """

    def __init__(
        self,
        on_step: Callable[[Detector], None] | None = None,
        *,
        open_gpu: Callable[[torch.device], Any] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.active = True
        self.problem: str | None = None
        self._on_step, self._open_gpu, self._clock = on_step, open_gpu or open_gpu_of, clock
        self._gpu: Any = None
        self._thread = threading.main_thread().ident
        self._steps = self._samples = 0
        self._started = self._last_update = 0.0
        self._loading_since: float | None = None
        self._loader: LoaderFacts | None = None
        self._autocast: str | None = None
        self._device: DeviceFacts | None = None
        self._model: ModelFacts | None = None
        self._optimizer_facts: list[OptimizerFacts] = []
        self._memory: MemoryFacts | None = None
        self._memory_read_at = 0.0
        self._ending: Ending | None = None
        self._hooks = RootHooks(self.forward_begins, self.forward_ends, self.evaluates)
        self._recorder: StepRecorder | None = None
        self._new_phase()
        self._new_step()

    def _new_phase(self) -> None:
        """A training with another optimizer begins: another fold, another stage. The report is on the last one.

        References are weak: what the script drops must be gone.
        """
        self._phase_steps = self._silent_steps = 0
        self._others: Counter[int] = Counter()
        self._optimizers: WeakList[torch.optim.Optimizer] = WeakList()
        self._modules: WeakList[nn.Module] = WeakList()
        self._feeds = Feeds()
        self._trains_in_eval_mode = False
        self._last_size: BatchSize | None = None
        self._most_elements = 0
        self._sums: dict[int, StepSums] = {}
        self._sizes: Counter[int] = Counter()

    def _new_step(self) -> None:
        self._batches = self._step_samples = 0
        self._forwards: Counter[int] = Counter()
        self._waiting = self._between = 0.0
        self._foreign: list[BatchSize] = []
        self._is_disturbed = False

    @_harmless
    def loading(self, loader: Any = None) -> None:
        """A data loader is asked for a batch."""
        if threading.get_ident() != self._thread:
            return
        if not torch.is_grad_enabled() or self._is_in_eval_mode() or self._feeds.is_foreign(loader):
            self._see_evaluation()
            return
        if self._gpu_may_be_asked():
            self._gpu.clock.begin()
        self._loading_since = self._clock()

    @_harmless
    def loaded(self, batch: Any, loader: Any = None) -> None:
        """The data loader has given a batch; ``None`` if it had no more."""
        if self._loading_since is None:
            self._take_foreign(batch, loader)
            return
        self._waiting += self._clock() - self._loading_since
        self._loading_since = None
        if self._gpu_may_be_asked():
            self._gpu.clock.end()
        if batch is None:
            return
        if self._loader is None or self._phase_steps == 0:
            self._loader = describe_loader(loader)
        self._feeds.gave(loader)
        self._foreign = []
        self._batches += 1
        self._take(size_of(batch), first=self._batches == 1)

    @_harmless
    def forward_begins(self, inputs: Any, module: int = 0) -> None:
        """A module that the script calls itself begins its forward pass; ``module`` tells several apart."""
        if not self._concerns():
            return
        if self._recorder is not None:
            self._recorder.forward_begins()
        if self._loader is not None:
            return
        first = not self._forwards
        self._forwards[module] += 1
        if first and self._phase_steps:
            self._between += self._clock() - self._last_update
            if self._gpu_may_be_asked():
                self._gpu.clock.end()
        if module == next(iter(self._forwards)):
            self._take(size_of_arguments(inputs), first=first)

    @_harmless
    def forward_ends(self) -> None:
        """It has ended."""
        if self._recorder is not None and self._concerns():
            self._recorder.forward_ended()

    @_harmless
    def evaluates(self) -> None:
        """A module that the script calls itself runs in evaluation mode."""
        if threading.get_ident() == self._thread and not self._trains_in_eval_mode:
            self._see_evaluation()

    @_harmless
    def entered_autocast(self, device_type: str, dtype: torch.dtype | None, *, enabled: bool) -> None:
        """Some operations run in another precision from here on; an evaluation's precision is not the training's."""
        # Whatever the thread: where a checkpoint recomputes, it is one of autograd's.
        if not torch.is_grad_enabled() or self._is_in_eval_mode():
            return
        if enabled and dtype is not None and (self._device is None or device_type == self._device.kind):
            self._autocast = str(dtype).removeprefix("torch.")

    @_harmless
    def updating(self) -> None:
        """An optimizer begins its step: the backward pass is over."""
        if self._recorder is not None:
            self._recorder.backward_ended(self._optimizers, self._modules)

    @_harmless
    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has ended its step. The first one that was seen is the one that counts steps."""
        if self._gpu is not None and self._gpu.recording:
            self._gpu.mark("optimizer")
        counting, steps = next(iter(self._optimizers), None), 1
        if counting is not None and optimizer is not counting:
            self._others[id(optimizer)] = steps = self._others[id(optimizer)] + 1
            if steps < OTHERS_TAKE_OVER:
                self._optimizers.append(optimizer)
                return
        if optimizer is not counting and self._phase_steps:
            self._new_phase()
        self._others.clear()
        self._optimizers.append(optimizer)
        self._count_step(self._clock(), steps)
        if self._on_step is not None:
            self._on_step(self)

    def ended(self, error: BaseException | None) -> None:
        """The training is over, perhaps by an exception."""
        self._ending = describe_ending(error) if error is not None else None
        try:
            self._hooks.remove()
            self._describe()
            if self._gpu is not None:
                self._gpu.sampler.stop()
                self._gpu.clock.collect()
                self._memory = self._gpu.memory(settled=True)
            if self._recorder is not None and error is None:
                self._recorder.finish(self._optimizers, self._autocast)
            elif self._gpu is not None:
                self._gpu.abandon_recording()
        except Exception as failed:  # after an error of CUDA nothing can be asked any more
            self.problem = self.problem or f"{type(failed).__name__}: {failed}"
        self.active = False

    def forked(self) -> None:
        """This is a child of the watched process now, whose work is none of the detector's business."""
        self.active, self._on_step = False, None

    def _give_up(self, error: Exception) -> None:
        """Leaves the script alone from here on."""
        self.active = False
        self.problem = f"{type(error).__name__}: {error}"
        with suppress(Exception):
            self._hooks.remove()
            if self._gpu is not None:
                self._gpu.sampler.stop()
                self._gpu.abandon_recording()

    def _is_in_eval_mode(self) -> bool:
        """Whether the whole model is, though it is not trained so."""
        modules = list(self._modules)
        return bool(modules) and not self._trains_in_eval_mode and not any_trains(modules)

    def _see_evaluation(self) -> None:
        """What runs now is no part of a step: neither of its time nor of what it allocates."""
        self._is_disturbed = True
        if self._recorder is not None and self._gpu.recording:
            self._recorder.abandon()
            self._detach()

    def _concerns(self) -> bool:
        """Evaluation, and threads that prepare batches, are not the training."""
        return torch.is_grad_enabled() and threading.get_ident() == self._thread

    def _gpu_may_be_asked(self) -> bool:
        return self._gpu is not None and self._gpu.usable()

    def _take(self, size: BatchSize | None, *, first: bool) -> None:
        if size is None:
            return
        self._step_samples += size.samples
        self._last_size = size
        self._most_elements = max(self._most_elements, size.elements)
        count_up(self._sizes, size.samples)
        if first and self._recorder is not None and self._gpu_may_be_asked():
            self._is_disturbed |= self._gpu.recording
            self._recorder.step_begins(size, self._phase_steps, self._optimizers, self._autocast)
            if self._gpu.recording:
                self._hooks.attach()
            else:
                self._detach()

    def _take_foreign(self, batch: Any, loader: Any) -> None:
        """A batch of a data set that is not known to be the training's, unless the next update shows that it is."""
        if batch is not None and self._concerns() and not self._is_in_eval_mode() and self._feeds.is_foreign(loader):
            self._feeds.gave(loader)
            size = size_of(batch)
            self._foreign += [size] if size is not None and len(self._foreign) < MOST_MICRO_BATCHES else []

    def _count_step(self, now: float, steps: int) -> None:
        """Counts a step, or the last of several that only now are known to be steps."""
        if self._loader is not None and not self._batches:  # a new epoch's loader over a new data set, it seems
            self._batches = len(self._foreign)
            for size in self._foreign:
                self._step_samples += size.samples
                count_up(self._sizes, size.samples)
        seconds = now - self._last_update if self._steps else 0.0
        if self._steps == 0:
            self._started = now
        self._feeds.updated()
        self._is_disturbed |= self._gpu is not None and self._gpu.recording
        if self._phase_steps == 0:
            self._first_step()
        elif self._phase_steps == 1:
            self._second_step()
        elif self._phase_steps >= WARM_UP_STEPS and not self._is_disturbed:
            # Where several modules take turns, as in a GAN, the one called least says how often.
            kind = self._batches if self._loader is not None else min(self._forwards.values(), default=0)
            if kind in self._sums or len(self._sums) < KINDS_OF_STEPS:
                self._sums.setdefault(kind, StepSums()).add(seconds, self._waiting, self._between)
        self._steps += steps
        self._phase_steps += 1
        self._count_samples(steps)
        self._last_update = now
        self._new_step()
        if self._phase_steps > 2:
            self._settle()
        if self._gpu_may_be_asked():
            self._look_at_gpu(now, seconds)

    def _count_samples(self, steps: int) -> None:
        """Where hooks on the model tell of batches, the steps until they are there are taken to be like the next."""
        if self._step_samples:
            self._samples += self._step_samples * (1 + self._silent_steps)
            self._silent_steps = 0
        elif self._last_size is None:
            self._silent_steps += steps

    def _settle(self) -> None:
        if self._hooks.settle():
            self._describe()
        if self._gpu is None or not self._gpu.recording:
            self._detach()

    def _detach(self) -> None:
        """Where a data loader tells of batches, nothing stays on the model between recordings."""
        if self._loader is not None and not self._hooks.learning:
            self._hooks.remove()

    def _first_step(self) -> None:
        # An optimizer may run in a thread of autograd's, which loads no batches.
        if not isinstance(threading.current_thread(), threading._DummyThread):
            self._thread = threading.get_ident()
        if self._last_size is not None:  # what came before may have been an evaluation
            self._sizes = Counter({self._last_size.samples: 1})
            self._most_elements = self._last_size.elements
        parameters = parameters_of(self._optimizers)
        device = next((parameter.device for parameter in parameters), torch.device("cpu"))
        if self._gpu is None:
            self._gpu = self._open_gpu(device)
            self._device = self._gpu.facts() if self._gpu is not None else describe_host(device)
        self._recorder = StepRecorder(self._gpu) if self._gpu is not None else None
        self._hooks.remove()

    def _second_step(self) -> None:
        """By now every optimizer has been seen once."""
        self._modules = WeakList(outermost_modules(parameters_of(self._optimizers)))
        self._trains_in_eval_mode = not any_trains(list(self._modules))
        if self._loader is None or self._gpu is not None:
            self._hooks.learn(list(self._modules))
        self._describe()

    def _describe(self) -> None:
        parameters = parameters_of(self._optimizers)
        if parameters:  # else the script has dropped them, and what was known before still holds
            self._model = describe_model(list(self._hooks.called) or list(self._modules), parameters)
            # Some scripts have an optimizer for each parameter.
            self._optimizer_facts = list(dict.fromkeys(map(describe_optimizer, self._optimizers)))

    def _look_at_gpu(self, now: float, seconds: float) -> None:
        if self._phase_steps == WARM_UP_STEPS:
            self._gpu.clock.reset()
            self._gpu.sampler.reset()
        if self._loader is None:
            self._gpu.clock.begin()
        self._gpu.sampler.stepped(seconds)
        if self._phase_steps <= WARM_UP_STEPS or now - self._memory_read_at > READ_MEMORY_EVERY_SECONDS:
            self._memory = self._gpu.memory(settled=self._phase_steps >= WARM_UP_STEPS)
            self._memory_read_at = now

    def _micro_batches(self) -> int:
        """How many batches make most of the steps."""
        return max(max(self._sums, key=lambda kind: self._sums[kind].steps, default=1), 1)

    def observation(self) -> Observation:
        """All that is known now."""
        micro_batches, gpu = self._micro_batches(), self._gpu
        sums = self._sums.get(micro_batches) or next(iter(self._sums.values()), None)
        idle = None
        if gpu is not None and gpu.clock.gaps:
            idle = gpu.clock.seconds / gpu.clock.gaps * (micro_batches if self._loader is not None else 1)
        sampled = gpu.sampler.samples if gpu is not None and gpu.sampler.samples >= ENOUGH_SAMPLES else 0
        recorder = self._recorder
        return Observation(
            steps=self._steps,
            samples=self._samples,
            seconds=self._last_update - self._started,
            batch_size=self._sizes.most_common(1)[0][0] if self._sizes else None,
            micro_batches=micro_batches,
            timed_steps=sums.steps if sums else 0,
            step_seconds=sums.seconds / sums.steps if sums else None,
            median_step_seconds=sums.median_seconds if sums else None,
            waiting_seconds=sums.waiting_seconds / sums.steps if sums and self._loader is not None else None,
            between_seconds=sums.between_seconds / sums.steps if sums and self._loader is None else None,
            gpu_idle_seconds=idle,
            busy=gpu.sampler.busy / sampled if sampled else None,
            power=(gpu.sampler.power / sampled or None) if sampled else None,
            autocast=self._autocast,
            tf32=uses_tf32(self._model),
            device=self._device,
            model=self._model,
            optimizers=list(self._optimizer_facts),
            loader=self._loader,
            memory=self._memory,
            recording=recorder.recording if recorder is not None else None,
            longest_batch=recorder.compared_with_recorded(self._most_elements) if recorder is not None else 1.0,
            torch_imported=True,
            framework=framework(),
            processors=processors(),
            ending=self._ending,
            problem=self.problem,
        )


def open_gpu_of(device: torch.device, other_processes_bytes: int = 0) -> Any:
    """What watches the GPU; ``None`` for any other device."""
    if device.type != "cuda":
        return None
    from memorymark.integrations.gpu import GpuWatch

    return GpuWatch(device, other_processes_bytes)

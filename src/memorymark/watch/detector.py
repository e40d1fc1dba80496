"""The detector: hears of batches, forward passes and optimizer steps, and learns how a training runs.

It knows neither who calls it nor how the script is written. It neither waits for the GPU (but for updates that a loop
makes itself), grows with the number of steps nor raises: an error inside ends the watching, not the training.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import torch

from memorymark.watch.batches import SeenBatch, size_of, size_of_arguments
from memorymark.watch.gpu_meter import WARM_UP_STEPS, GpuMeter, open_gpu_of
from memorymark.watch.harmless import harmless
from memorymark.watch.kept_outputs import KeptOutputs
from memorymark.watch.layout import dimension_by_labels, dimension_by_layers
from memorymark.watch.modules import (
    any_trains,
    describe_model,
    describe_optimizer,
    outermost_modules,
    parameters_of,
    trainable_modules,
)
from memorymark.watch.observation import Ending, LoaderFacts, ModelFacts, Observation, OptimizerFacts
from memorymark.watch.operation_recorder import OperationRecorder, may_count
from memorymark.watch.own_updates import UpdateFinder
from memorymark.watch.phase import Phase, StepSoFar
from memorymark.watch.roots import RootHooks
from memorymark.watch.step_recorder import StepRecorder
from memorymark.watch.surroundings import describe_ending, describe_loader, framework, processors, uses_tf32
from memorymark.watch.weak import WeakList

# Modules that were not called by then are called in a way that cannot be heard.
MOST_LEARNING_STEPS = 6


class Detector:
    """Learns from a training while it runs; ``observation`` returns what it knows so far.

    ``on_step`` is called after each optimizer step, to save the observation. ``open_gpu`` returns a watch for a
    device's GPU. ``clock`` returns seconds. The observation covers the last phase.
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
        self._on_step, self._clock = on_step, clock
        self._gpu = GpuMeter(open_gpu or open_gpu_of)
        self._thread = threading.main_thread().ident
        self._steps = self._earlier_samples = 0
        self._started = self._last_update = 0.0
        self._loading_since: float | None = None
        self._loader: LoaderFacts | None = None
        self._autocast: str | None = None
        self._model: ModelFacts | None = None
        self._optimizer_facts: list[OptimizerFacts] = []
        self._ending: Ending | None = None
        self._hooks = RootHooks(self.forward_begins, self.forward_ends, self.evaluates)
        self._recorder: StepRecorder | None = None
        self._operations = OperationRecorder()
        self._outputs = KeptOutputs()
        self._own = UpdateFinder(trainable_modules)
        self._phase, self._step = Phase(), StepSoFar()

    @harmless
    def loading(self, loader: Any = None) -> None:
        """A data loader is asked for a batch."""
        if threading.get_ident() != self._thread:
            return
        self._look_for_own_update()
        if not torch.is_grad_enabled() or self._phase.is_in_eval_mode or self._phase.feeds.is_foreign(loader):
            self._see_evaluation()
            return
        self._gpu.wait_begins()
        self._loading_since = self._clock()

    @harmless
    def loaded(self, batch: Any, loader: Any = None) -> None:
        """The data loader has given a batch; ``None`` if it had no more."""
        if self._loading_since is None:
            self._take_foreign(batch, loader)
            return
        self._step.waiting_seconds += self._clock() - self._loading_since
        self._loading_since = None
        self._gpu.wait_ends()
        if batch is None:
            return
        if self._loader is None or self._phase.steps == 0:
            self._loader = describe_loader(loader)
        self._phase.feeds.gave(loader)
        self._step.foreign = []
        self._step.batches += 1
        self._phase.sizes.see_labels(dimension_by_labels(batch))
        size = size_of(batch)
        if size is not None:
            self._phase.take(size, self._step)
        self._take(size, first=self._step.batches == 1)

    @harmless
    def forward_begins(self, inputs: Any, module: int = 0) -> None:
        """A module that the script calls directly begins its forward pass; ``module`` identifies it."""
        if not self._concerns():
            return
        self._look_for_own_update()
        self._operations.enters("forward")
        if self._recorder is not None:
            self._recorder.forward_begins()
        if self._loader is not None:
            return
        forwards, size = self._step.forwards, size_of_arguments(inputs)
        first = not forwards
        forwards.add(module, size)
        if first and self._phase.steps:
            self._step.between_seconds += self._clock() - self._last_update
            self._gpu.wait_ends()
        if forwards.is_first(module):
            self._take(size, first=first)

    @harmless
    def forward_ends(self, outputs: Any = None) -> None:
        """The forward pass has ended and returns these outputs."""
        if not self._concerns():
            return
        self._outputs.forward_ended(outputs)
        if self._recorder is not None:
            self._recorder.forward_ended()

    @harmless
    def backward_begins(self) -> None:
        """A backward pass begins."""
        if threading.get_ident() != self._thread:
            return
        self._look_for_own_update()
        self._operations.enters("backward")
        self._step.backwards += 1
        self._own.backward_begins()
        idle = self._outputs.backward_begins()
        if self._recorder is not None:
            self._recorder.backward_begins(idle)

    @harmless
    def backward_ended(self) -> None:
        """A backward pass has ended."""
        if threading.get_ident() != self._thread:
            return
        self._own.backward_ended()
        if self._own.updates is not None and self._recorder is not None:
            self._recorder.backward_ended(self._phase.optimizers, self._phase.modules)

    @harmless
    def evaluates(self) -> None:
        """A module that the script calls directly runs in evaluation mode."""
        if threading.get_ident() == self._thread and not self._phase.trains_in_eval_mode:
            self._look_for_own_update(by_values=True)
            self._see_evaluation()

    @harmless
    def entered_autocast(self, device_type: str, dtype: torch.dtype | None, *, enabled: bool) -> None:
        """Autocast begins; in an evaluation it is ignored."""
        # In any thread: a checkpoint recomputes in one of autograd's.
        if not torch.is_grad_enabled() or self._phase.is_in_eval_mode:
            return
        device = self._gpu.device
        if enabled and dtype is not None and (device is None or device_type == device.kind):
            self._autocast = str(dtype).removeprefix("torch.")

    @harmless
    def updating(self) -> None:
        """An optimizer begins its step: the backward pass is over."""
        self._operations.enters("optimizer")
        if self._recorder is not None:
            self._recorder.backward_ended(self._phase.optimizers, self._phase.modules)

    @harmless
    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has ended its step. The first one seen counts steps."""
        self._own.stop()
        steps = self._phase.steps_ended_by(optimizer)
        if steps:
            self._ended_by(optimizer, steps)
        else:
            self._gpu.updated()
            self._phase.optimizers.append(optimizer)

    @harmless
    def saving(self) -> None:
        """The script begins to save something: modules are saved as it made them."""
        self._look_for_own_update(by_values=True)
        self._hooks.pause()

    @harmless
    def saved(self) -> None:
        """The script has saved something."""
        self._hooks.resume()

    def ended(self, error: BaseException | None) -> None:
        """The training is over, perhaps by an exception."""
        self._ending = describe_ending(error) if error is not None else None
        try:
            if self.active:
                self._look_for_own_update(by_values=True)
            self._operations.abandon()
            self._hooks.remove()
            self._describe()
            self._gpu.finish()
            if self._recorder is not None and error is None:
                self._recorder.finish(self._phase.optimizers, self._autocast)
            else:
                self._gpu.abandon_recording()
        except Exception as failed:  # after a CUDA error every query fails
            self.problem = self.problem or f"{type(failed).__name__}: {failed}"
        self.active = False

    def forked(self) -> None:
        """This process is a fork of the watched one; its work is not watched."""
        self.active, self._on_step = False, None

    def observation(self) -> Observation:
        """Returns everything known so far."""
        phase, recorder, loads = self._phase, self._recorder, self._loader is not None
        return Observation(
            steps=self._steps,
            samples=self._earlier_samples + phase.samples,
            seconds=self._last_update - self._started,
            **phase.facts(loads=loads),
            **self._gpu.facts(waits_per_step=phase.micro_batches if loads else 1),
            autocast=self._autocast,
            tf32=uses_tf32(self._model),
            model=self._model,
            optimizers=list(self._optimizer_facts),
            loader=self._loader,
            keeps_outputs=self._outputs.kept,
            recording=recorder.recording if recorder is not None else None,
            operations=self._operations.operations,
            longest_batch=recorder.compared_with_recorded(phase.sizes.most_elements) if recorder is not None else 1.0,
            torch_imported=True,
            framework=framework(),
            processors=processors(),
            ending=self._ending,
            problem=self.problem,
        )

    def give_up(self, error: Exception) -> None:
        """Leaves the script alone from here on."""
        self.active = False
        self.problem = f"{type(error).__name__}: {error}"
        with suppress(Exception):
            self._operations.abandon()
            self._hooks.remove()
            self._gpu.let_go()

    def _look_for_own_update(self, *, by_values: bool = False) -> None:
        """Notices that the loop has updated the parameters itself."""
        steps = self._own.steps_by_values() if by_values else 0
        steps = steps or self._own.steps_made()
        if steps and self._own.updates is not None:
            self._ended_by(cast(torch.optim.Optimizer, self._own.updates), steps)  # used as one

    def _ended_by(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self._gpu.updated()
        if self._phase.steps and not self._phase.is_counted_by(optimizer):
            self._earlier_samples += self._phase.samples
            self._phase = Phase()
        self._phase.count_by(optimizer)
        self._count_step(self._clock(), steps)
        if self._on_step is not None:
            self._on_step(self)

    def _see_evaluation(self) -> None:
        """Excludes an evaluation from the time and the allocations of the step."""
        self._step.is_disturbed = True
        self._operations.abandon()
        if self._recorder is not None and self._gpu.recording:
            self._recorder.abandon()
            self._detach()

    def _concerns(self) -> bool:
        """Tells whether a call belongs to the training, not to an evaluation or a thread that prepares batches."""
        return torch.is_grad_enabled() and threading.get_ident() == self._thread

    def _take(self, size: SeenBatch | None, *, first: bool) -> None:
        if size is None:
            return
        if first:
            self._step.size = size
        size = size._replace(samples=size.along(self._phase.sizes.dimension))
        if first and self._recorder is not None and self._gpu.is_usable:
            self._step.is_disturbed |= self._gpu.recording
            self._recorder.step_begins(size, self._phase.steps, self._phase.optimizers, self._autocast)
            self._count_operations(size)
            if self._gpu.recording or self._operations.recording:
                self._hooks.attach()
            else:
                self._detach()

    def _count_operations(self, size: SeenBatch) -> None:
        """Begins to count the operations of a step in which nothing else is recorded, or ends it."""
        self._step.is_disturbed |= self._operations.recording
        allowed = not self._gpu.recording and may_count(self._gpu.device, self._gpu.memory, self._model)
        self._operations.step_begins(size.samples, self._phase.steps, self._phase.optimizers, allowed=allowed)

    def _take_foreign(self, batch: Any, loader: Any) -> None:
        """Keeps a batch of a data set that seems foreign; the next update may show that it is the training's."""
        phase = self._phase
        if batch is not None and self._concerns() and not phase.is_in_eval_mode and phase.feeds.is_foreign(loader):
            phase.feeds.gave(loader)
            self._step.keep_foreign(size_of(batch))

    def _count_step(self, now: float, steps: int) -> None:
        """Counts a step, or several that are only now known to be steps."""
        phase, step, loads = self._phase, self._step, self._loader is not None
        if loads and not step.batches:
            phase.adopt_foreign(step)
        seconds = now - self._last_update if self._steps else 0.0
        if self._steps == 0:
            self._started = now
        if not loads:
            phase.take_forwards(step)
        phase.feeds.updated()
        step.is_disturbed |= self._gpu.recording or self._operations.recording
        if phase.steps == 0:
            self._first_step()
        elif phase.steps == 1:
            self._second_step()
        elif phase.steps >= WARM_UP_STEPS and not step.is_disturbed:
            phase.add_time(step, seconds, loads=loads)
        self._steps += steps
        phase.steps += 1
        phase.count_samples(step, steps)
        self._last_update, self._step = now, StepSoFar()
        if phase.steps > 2 and (self._hooks.heard or phase.steps > MOST_LEARNING_STEPS):
            self._settle(step)
        self._gpu.stepped(now, seconds, phase.steps, loads=loads)

    def _settle(self, step: StepSoFar) -> None:
        if self._hooks.settle():
            self._describe()
            by_layers = dimension_by_layers(step.size, self._hooks.witnesses) if step.size is not None else None
            self._phase.sizes.decide(by_layers)
        if not self._gpu.recording and not self._operations.recording:
            self._detach()

    def _detach(self) -> None:
        """Removes hooks from the model between recordings if a data loader reports batches."""
        if self._loader is not None and not self._hooks.learning:
            self._hooks.remove()

    def _first_step(self) -> None:
        # An optimizer may run in an autograd thread, which loads no batches.
        if not isinstance(threading.current_thread(), threading._DummyThread):
            self._thread = threading.get_ident()
        self._phase.sizes.forget_but_last()  # the others may have been an evaluation's
        parameters = parameters_of(self._phase.optimizers)
        self._gpu.open(next((parameter.device for parameter in parameters), torch.device("cpu")))
        self._recorder = StepRecorder(self._gpu.watch) if self._gpu.watch is not None else None
        self._hooks.remove()

    def _second_step(self) -> None:
        """Describes the training: by now every optimizer has been seen once."""
        modules = outermost_modules(parameters_of(self._phase.optimizers))
        self._phase.modules = WeakList(modules)
        self._phase.trains_in_eval_mode = not any_trains(modules)
        self._hooks.learn(modules)
        self._describe()

    def _describe(self) -> None:
        parameters = parameters_of(self._phase.optimizers)
        if parameters:  # else the script has dropped them, and the earlier facts still hold
            self._model = describe_model(list(self._hooks.called) or list(self._phase.modules), parameters)
            # Some scripts have an optimizer for each parameter.
            self._optimizer_facts = list(dict.fromkeys(map(describe_optimizer, self._phase.optimizers)))

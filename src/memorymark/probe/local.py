"""A probe in this process, for a workload that exists nowhere else."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memorymark.catalog import GpuEntry
from memorymark.errors import UsageError
from memorymark.probe.opening import Opening, device_of, settled
from memorymark.profiles.stored import profiles_for
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from memorymark.results.explanation import Anatomy
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.training.blame import blaming, told_as_theirs
from memorymark.training.workload import Workload, count_elements

if TYPE_CHECKING:
    from memorymark.prediction.tracing.fake_step import TracedStep


class LocalProbe:
    """Runs or predicts a workload in the caller's process; a context manager that leaves the device as it was.

    It measures, or predicts if the target names a GPU. With ``predict_without_gpu`` it also predicts for the default
    GPU if this machine has none and the target leaves the device open. A crash, or running out of host memory, hits the
    caller's process, so named models run in a worker instead. Set ``preserve`` for a model that the caller continues to
    use.
    """

    def __init__(
        self,
        workload: Workload,
        recipe: Recipe,
        target: Target,
        *,
        predict_without_gpu: bool = False,
        preserve: bool = False,
    ) -> None:
        self._preserve = preserve
        self._workload, self._recipe, self._target = workload, recipe, target
        self._predict_without_gpu = predict_without_gpu
        self._stack = ExitStack()
        self._opening: Opening
        self.info: ProbeInfo

    def __enter__(self) -> LocalProbe:
        from memorymark.training.guard import device_unharmed, randomness_unharmed

        target = settled(self._target, predict_without_gpu=self._predict_without_gpu)
        with told_as_theirs(), ExitStack() as stack:
            stack.enter_context(randomness_unharmed())
            require_growing_batches(self._workload)
            if target.gpu is None:
                stack.enter_context(device_unharmed())
            training, device = OwnTraining(self._workload, self._recipe), device_of(target)
            profiles = profiles_for(target.profile, target.gpu) if device is None else None
            opening = Opening(training, target, device, profiles=profiles, preserve=self._preserve)
            self._opening = stack.enter_context(closing(opening))
            self.info = self._described()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def try_batch(self, batch_size: int) -> Trial:
        """Does it fit?"""
        with told_as_theirs():
            return self._opening.probe.try_batch(batch_size)

    def try_from_start(self, batch_size: int) -> Trial:
        """Does it fit as the first step of a training?"""
        with told_as_theirs():
            return self._opening.probe.try_from_start(batch_size)

    def forecast(self) -> int | None:
        """The largest batch that should fit."""
        return self._opening.probe.forecast()

    def second_batch(self) -> int | None:
        """The size of a second trial that would allow a forecast."""
        return self._opening.probe.second_batch()

    def measure(self, batch_size: int) -> Trial:
        """The whole answer."""
        with told_as_theirs():
            return self._opening.probe.measure(batch_size)

    def explain(self, batch_size: int) -> Anatomy:
        """Where the memory goes."""
        with told_as_theirs():
            return self._opening.probe.explain(batch_size)

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """The allocator's history."""
        with told_as_theirs():
            return self._opening.probe.snapshot(batch_size)

    def keep_outputs(self, keep: bool) -> None:
        """Continues with the loop that keeps the model's outputs, or that drops them."""
        self._opening.probe.keep_outputs(keep)

    def retarget(self, gpu: GpuEntry) -> None:
        """Predicts for another GPU from here on."""
        with told_as_theirs():
            self._opening.retarget(gpu)
            self.info = self._described()

    def reshape(self, seq_len: int, mean_tokens: int | None = None) -> None:
        """Raises ``UsageError``: a workload makes its own batches."""
        self._opening.reshape(seq_len, mean_tokens)

    def _described(self) -> ProbeInfo:
        import torch

        versions = {"torch": torch.__version__, "cuda": torch.version.cuda or "none"}
        return replace(self._opening.probe.info, versions=versions)


class OwnTraining:
    """A caller's workload and its recipe; traced once for each generation of GPUs."""

    def __init__(self, workload: Workload, recipe: Recipe) -> None:
        self._workload, self.recipe = workload, recipe
        self._traced: dict[str, TracedStep] = {}

    def workload(self) -> Workload:
        """The workload as it was given."""
        return self._workload

    def traced(self, gpu: GpuEntry) -> TracedStep:
        """Returns the step as this GPU runs it."""
        from memorymark.prediction.tracing.fake_step import trace_training
        from memorymark.prediction.tracing.sharing import generation

        key = generation(gpu.capability)
        if key not in self._traced:
            self._traced[key] = trace_training(self._workload, self.recipe, gpu.capability)
        return self._traced[key]

    def at_length(self, seq_len: int, _: int | None) -> OwnTraining:
        """Raises ``UsageError``: only the workload's author can make samples of another length."""
        raise UsageError(f"a Workload makes its own batches; make one whose samples have {seq_len} tokens.")


def require_growing_batches(workload: Workload) -> None:
    """Rejects a batch function that ignores the requested size, because every size would seem to fit.

    Looks at visible tensors only; those inside other objects are not checked.
    """
    smaller, larger = (count_elements(_batch(workload, size)) for size in (1, 2))
    if 0 < larger <= smaller:
        raise UsageError(
            "batch= returns as much for 2 samples as for 1; it must make as many samples as requested.",
            code="bad_workload",
        )


def _batch(workload: Workload, size: int) -> Any:
    """Makes a batch on the CPU, and rejects a bad batch function before the model or the loss fails on its result."""
    import torch
    from torch.utils.data import DataLoader

    with blaming("batch="):
        batch = workload.batch(size, torch.device("cpu"))
    if batch is None or isinstance(batch, DataLoader):
        what = "nothing" if batch is None else "a DataLoader"
        raise UsageError(
            f"batch= returned {what}; it must return one batch of as many samples as requested.", code="bad_workload"
        )
    return batch

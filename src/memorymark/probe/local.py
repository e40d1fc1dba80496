"""A probe in this process, for a workload that exists nowhere else."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memorymark.blame import blaming, told_as_theirs
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.probe.base import ProbeInfo
from memorymark.recipe import Recipe
from memorymark.target import Target, default_gpu_target
from memorymark.trial import Trial
from memorymark.workload import Workload, count_elements

if TYPE_CHECKING:
    from memorymark.probe.measured import MeasuredProbe
    from memorymark.probe.predicted import PredictedProbe


class LocalProbe:
    """Runs or predicts a workload where the caller is; a context manager that leaves the device as it was.

    It measures, or predicts if the target names a GPU. With ``predict_without_gpu`` it also predicts, for the default
    GPU, where there is none and the target leaves the device open. What it runs out of memory, or crashes with, is
    the caller's process, so a model by name is better off in a worker. ``preserve`` is for a model that the caller goes
    on using.
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
        self._probe: MeasuredProbe | PredictedProbe
        self._traced: dict[str, Any] = {}
        self.info: ProbeInfo

    def __enter__(self) -> LocalProbe:
        from memorymark.devices import accelerator_kind
        from memorymark.guard import randomness_unharmed

        target = self._target
        nothing_named = target.gpu is None and target.device == "auto"
        if nothing_named and self._predict_without_gpu and accelerator_kind() is None:
            target = default_gpu_target(target)
        with told_as_theirs(), ExitStack() as stack:
            stack.enter_context(randomness_unharmed())
            require_growing_batches(self._workload)
            if target.gpu is not None:
                self._predict_for(target.gpu, target.memory_cap_bytes)
            else:
                self._measure_on(target, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        del self._probe
        self._stack.close()

    def try_batch(self, batch_size: int) -> Trial:
        """Does it fit?"""
        with told_as_theirs():
            return self._probe.try_batch(batch_size)

    def try_from_start(self, batch_size: int) -> Trial:
        """Does it fit where a training starts with it?"""
        with told_as_theirs():
            return self._probe.try_from_start(batch_size)

    def forecast(self) -> int | None:
        """The largest batch that should fit."""
        return self._probe.forecast()

    def second_batch(self) -> int | None:
        """The size of a second trial that would allow a forecast."""
        return self._probe.second_batch()

    def measure(self, batch_size: int) -> Trial:
        """The whole answer."""
        with told_as_theirs():
            return self._probe.measure(batch_size)

    def retarget(self, gpu: str) -> None:
        """Predicts for another GPU from here on."""
        with told_as_theirs():
            self._predict_for(gpu, self._target.memory_cap_bytes)

    def reshape(self, seq_len: int) -> None:
        """A workload makes its own batches."""
        raise UsageError(f"a Workload makes its own batches; make one whose samples have {seq_len} tokens.")

    def _measure_on(self, target: Target, stack: ExitStack) -> None:
        from memorymark.devices import open_device
        from memorymark.guard import device_unharmed
        from memorymark.probe.measured import MeasuredProbe

        stack.enter_context(device_unharmed())
        device = open_device(target)
        self._probe = stack.enter_context(MeasuredProbe(self._workload, self._recipe, device, preserve=self._preserve))
        self.info = self._described()

    def _predict_for(self, gpu_id: str, memory_cap_bytes: int | None) -> None:
        from memorymark.prediction.cuda_choices import generation
        from memorymark.prediction.fake_step import trace_training
        from memorymark.probe.predicted import PredictedProbe

        gpu = find_gpu(gpu_id)
        key = generation(gpu.capability)
        if key not in self._traced:
            self._traced[key] = trace_training(self._workload, self._recipe, gpu.capability)
        self._probe = PredictedProbe(self._traced[key], self._recipe, gpu, memory_cap_bytes=memory_cap_bytes)
        self.info = self._described()

    def _described(self) -> ProbeInfo:
        import torch

        versions = {"torch": torch.__version__, "cuda": torch.version.cuda or "none"}
        return replace(self._probe.info, sample=self._workload.sample, versions=versions)


def require_growing_batches(workload: Workload) -> None:
    """Refuses a batch function that ignores the size it is asked for, as far as tensors are seen: every size would fit.

    What an object keeps to itself is taken on trust.
    """
    smaller, larger = (count_elements(_batch(workload, size)) for size in (1, 2))
    if 0 < larger <= smaller:
        raise UsageError(
            "batch= gives as much for 2 samples as for 1; have it make as many samples as it is asked for."
        )


def _batch(workload: Workload, size: int) -> Any:
    """A batch on the CPU; what is no batch function is found out here, before a model or a loss is blamed for it."""
    import torch
    from torch.utils.data import DataLoader

    with blaming("batch="):
        batch = workload.batch(size, torch.device("cpu"))
    if batch is None or isinstance(batch, DataLoader):
        what = "nothing" if batch is None else "a DataLoader"
        raise UsageError(f"batch= gave {what}; have it make one batch, of as many samples as it is asked for.")
    return batch

"""Opens the probe of a training in this process: the only place that decides whether to measure or predict."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from memorymark.catalog import GpuEntry, find_gpu
from memorymark.devices.resolve import for_gpu, where_no_gpu_is
from memorymark.errors import UsageError
from memorymark.profiles.profile import profile_of
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target

if TYPE_CHECKING:
    from memorymark.devices import Device
    from memorymark.prediction.calibration.correction import Correction
    from memorymark.prediction.tracing.fake_step import TracedStep
    from memorymark.probe.measured import MeasuredProbe
    from memorymark.probe.predicted import PredictedProbe
    from memorymark.training.workload import Workload


class Training(Protocol):
    """What a probe is opened for: a workload, its recipe, and its traced step."""

    @property
    def recipe(self) -> Recipe:
        """The recipe."""

    def workload(self) -> Workload:
        """Builds the workload."""

    def traced(self, gpu: GpuEntry) -> TracedStep:
        """Returns the step as GPUs of this generation run it; probes may share one trace."""

    def at_length(self, seq_len: int, mean_tokens: int | None) -> Training:
        """Returns this training with samples of another length, or rows packed with samples of another mean length."""


class Opening:
    """A training and its probe, which measures on ``device``, or predicts if that is ``None``.

    ``device`` comes from ``device_of(target)``. ``profiles`` are those to use, by their GPU's id, as documents. Set
    ``preserve`` for a model that the caller continues to use.
    """

    probe: MeasuredProbe | PredictedProbe

    def __init__(
        self,
        training: Training,
        target: Target,
        device: Device | None,
        *,
        profiles: Mapping[str, dict[str, Any]] | None = None,
        preserve: bool = False,
    ) -> None:
        self._training, self._target, self._profiles = training, target, profiles or {}
        self._stack = ExitStack()
        if device is not None:
            self._measure(device, preserve=preserve)
        else:
            self._predict()

    def close(self) -> None:
        """Closes the probe and restores a preserved model."""
        del self.probe
        self._stack.close()

    def retarget(self, gpu: GpuEntry) -> None:
        """Predicts for another GPU from here on."""
        if self._target.gpu is None:
            raise UsageError(f"this probe measures on the {self.probe.info.device_name}; open one that predicts.")
        self._target = for_gpu(self._target, gpu)
        self._predict()

    def reshape(self, seq_len: int, mean_tokens: int | None = None) -> None:
        """Continues with samples of another length, on the same model or with a new trace."""
        from memorymark.probe.measured import MeasuredProbe

        self._training = self._training.at_length(seq_len, mean_tokens)
        if isinstance(self.probe, MeasuredProbe):
            self.probe.feed(self._training.workload())
        else:
            self._predict()

    def _predict(self) -> None:
        from memorymark.probe.predicted import PredictedProbe

        gpu = self._target.entry or find_gpu("")
        step, cap_bytes, recipe = self._training.traced(gpu), self._target.memory_cap_bytes, self._training.recipe
        self.probe = PredictedProbe(
            step,
            recipe,
            gpu,
            memory_cap_bytes=cap_bytes,
            allocator=recipe.allocator,
            correction=self._correction(gpu),
        )

    def _correction(self, gpu: GpuEntry) -> Correction | None:
        from memorymark.prediction.calibration.correction import Correction

        document = self._profiles.get(gpu.id)
        return None if document is None else Correction(profile_of(document), gpu)

    def _measure(self, device: Device, *, preserve: bool) -> None:
        from memorymark.probe.measured import MeasuredProbe

        with ExitStack() as stack:
            workload, recipe = self._training.workload(), self._training.recipe
            probe = MeasuredProbe(workload, recipe, device, preserve=preserve, allocator=recipe.allocator)
            self.probe = stack.enter_context(probe)
            device.synchronize()
            self._stack = stack.pop_all()


def device_of(target: Target) -> Device | None:
    """Opens the device that a target's steps run on; returns ``None`` if they are predicted."""
    from memorymark.devices import open_device

    if target.gpu is not None:
        return None
    device = open_device(target)
    device.synchronize()
    return device


def settled(target: Target, *, predict_without_gpu: bool) -> Target:
    """Settles an open target: with ``predict_without_gpu``, it is predicted if torch has no GPU here."""
    from memorymark.devices import accelerator_kind

    return where_no_gpu_is(target) if predict_without_gpu and accelerator_kind() is None else target

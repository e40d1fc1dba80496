"""The calls of a worker, which holds the probe and answers them by name."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memorymark.catalog import GpuEntry, find_gpu, own_gpu
from memorymark.devices.resolve import device_here
from memorymark.devices.snapshots import compact
from memorymark.errors import CannotPredictError, UsageError
from memorymark.prediction.tracing.kept_traces import KeptTraces, default_folder
from memorymark.probe.opening import Opening, device_of, settled
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.results.trial import Trial
from memorymark.worker.loading import free_gpu, load, settle
from memorymark.worker.traces import Traces

if TYPE_CHECKING:
    from memorymark.devices import Device
    from memorymark.prediction.tracing.fake_step import TracedStep
    from memorymark.probe.measured import MeasuredProbe
    from memorymark.probe.predicted import PredictedProbe
    from memorymark.training.workload import Workload
    from memorymark.worker.calibrating import Calibrating

PROCESS_START = time.perf_counter()


@dataclass(frozen=True)
class NamedTraining:
    """The training that a request names; its traces are shared with those of other requests."""

    request: Request
    traces: Traces

    @property
    def recipe(self) -> Recipe:
        """The recipe of the request."""
        return self.request.recipe

    def workload(self) -> Workload:
        """Builds the workload that the request names."""
        from memorymark.models.workloads import workload_of

        return workload_of(self.request)

    def traced(self, gpu: GpuEntry) -> TracedStep:
        """Returns the step as this GPU runs it."""
        try:
            return self.traces.of(self.request, gpu)
        except CannotPredictError as error:
            # A size that was asked for may be to blame for what the model raised.
            if self.request.image_size is not None and isinstance(error.__cause__, RuntimeError):
                raise error.__cause__ from None
            raise

    def at_length(self, seq_len: int, mean_tokens: int | None) -> NamedTraining:
        """Returns this training with samples of another length, or rows packed with samples of another mean length."""
        return replace(self, request=self.request.at_length(seq_len, mean_tokens))


class Worker:
    """Answers calls by name; ``suspect`` is the request that may have caused a crash, because it never ran before."""

    def __init__(self) -> None:
        self.suspect: Request | None = None
        self._traces = Traces()
        self._opening: Opening | None = None
        self._calibrating: Calibrating | None = None
        self._small = False
        self._start: float | None = PROCESS_START

    def load(self, *, with_transformers: bool = True) -> dict[str, Any]:
        """Does the slow imports ahead of ``open``; starts no device."""
        self._start = None
        return load(with_transformers=with_transformers)

    def keep_traces(self) -> dict[str, Any]:
        """Lets this worker keep traces on disk; only for a worker that serves its own user."""
        folder = default_folder()
        self._traces.on_disk = KeptTraces(folder) if folder is not None else None
        return {"folder": str(folder) if folder is not None else None}

    def hub_config(self, name: str, revision: str | None) -> dict[str, Any]:
        """Fetches the public config.json of a Hugging Face id, for a worker that cannot reach the Hub."""
        from memorymark.models.hub import public_config

        return {"config": public_config(name, revision)}

    def open(
        self,
        request: dict[str, Any],
        predict_without_gpu: bool = False,
        hub_config: dict[str, Any] | None = None,
        profiles: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Builds the model of a request on its device, or traces it for a GPU that is not in this machine.

        ``hub_config`` is the config of its Hugging Face id, if this process cannot fetch it, ``profiles`` are those of
        GPUs by their id. Drops everything from an earlier ``open`` except a few traces.
        """
        start = self._start if self._start is not None else time.perf_counter()
        self.suspect = None
        self._drop_probe()
        self._traces.code_may_have_changed()
        asked = Request.from_dict(request)
        _look_early(asked, hub_config)
        self.load(with_transformers=False)
        asked = _settled(asked, predict_without_gpu=predict_without_gpu)
        if asked.name.is_of_transformers and not self._is_traced(asked):
            self.load(with_transformers=True)
        imported = time.perf_counter()
        device = device_of(asked.target)
        opened = time.perf_counter()
        self._build(asked, device, profiles)
        built = time.perf_counter()
        return self._info({"import": imported - start, "device": opened - imported, "build": built - opened})

    def _build(self, asked: Request, device: Device | None, profiles: dict[str, Any] | None) -> None:
        self.suspect, self._small = asked, bool(asked.small)
        self._opening = Opening(NamedTraining(asked, self._traces), asked.target, device, profiles=profiles)
        if device is None:  # the model was traced, so it has run
            self.suspect = None
        settle(anew=device is not None)

    def retarget(self, gpu: str, gpu_facts: dict[str, Any] | None = None) -> dict[str, Any]:
        """Predicts the same request for another GPU from here on, or for one that the caller describes."""
        self._opened.retarget(find_gpu(gpu) if gpu_facts is None else own_gpu(gpu_facts))
        return self._info({})

    def reshape(self, seq_len: int, mean_tokens: int | None = None) -> dict[str, Any]:
        """Continues with samples of another length: measures the same model, or predicts from a new trace."""
        start = time.perf_counter()
        self._opened.reshape(seq_len, mean_tokens)
        settle(anew=self._probe.info.source == "measured")
        return self._info({"build": time.perf_counter() - start})

    def try_batch(self, batch_size: int) -> dict[str, Any]:
        """Runs a quick trial."""
        return self._tried(self._probe.try_batch(batch_size))

    def try_from_start(self, batch_size: int) -> dict[str, Any]:
        """Runs a quick trial of a training that starts with this size."""
        return self._tried(self._probe.try_from_start(batch_size))

    def keep_outputs(self, keep: bool) -> dict[str, Any]:
        """Continues with the loop that keeps the model's outputs, or that drops them."""
        self._probe.keep_outputs(keep)
        return {}

    def forecast(self) -> dict[str, Any]:
        """Returns the largest batch that should fit."""
        return {"maximum": self._probe.forecast()}

    def second_batch(self) -> dict[str, Any]:
        """Returns the size of a second trial that would allow a forecast."""
        return {"batch_size": self._probe.second_batch()}

    def measure(self, batch_size: int) -> dict[str, Any]:
        """Runs a full trial."""
        return self._tried(self._probe.measure(batch_size))

    def explain(self, batch_size: int) -> dict[str, Any]:
        """Runs a full trial and returns where its memory goes."""
        anatomy = self._probe.explain(batch_size)
        if anatomy.trial.fits:
            self.suspect = None
        return {"anatomy": anatomy.to_dict(), "clean": self._probe.clean}

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """Runs steps and returns the allocator's history of them."""
        return compact(self._probe.snapshot(batch_size))

    def phase_peaks(self, batch_size: int) -> dict[str, Any]:
        """Returns the peaks of the forward pass, of forward and backward, and of the full step."""
        from memorymark.probe.measured import MeasuredProbe

        if not isinstance(self._probe, MeasuredProbe):
            raise UsageError("the peaks of forward and backward can only be measured; open a device of this machine.")
        return dict(self._probe.phase_peaks(batch_size))

    def calibrate(self, device: str) -> dict[str, Any]:
        """Gets ready to calibrate a CUDA device; returns what it is."""
        from memorymark.worker.calibrating import Calibrating

        self._calibrating = Calibrating(device)
        return self._calibrating.facts()

    def calibrate_host(self) -> dict[str, Any]:
        """Times the host's part of a step, and copies."""
        assert self._calibrating is not None  # noqa: S101 - calibrate() came first
        return self._calibrating.host()

    def calibrate_cases(self, cases: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
        """Times single operations for at most so many seconds."""
        assert self._calibrating is not None  # noqa: S101 - calibrate() came first
        return {"timed": self._calibrating.cases(cases, seconds)}

    @property
    def _opened(self) -> Opening:
        assert self._opening is not None  # noqa: S101 - open() came first
        return self._opening

    @property
    def _probe(self) -> MeasuredProbe | PredictedProbe:
        return self._opened.probe

    def _tried(self, trial: Trial) -> dict[str, Any]:
        if trial.fits:
            self.suspect = None
        return {"trial": trial.to_dict(), "clean": self._probe.clean}

    def _info(self, seconds: dict[str, float]) -> dict[str, Any]:
        versions = self.load(with_transformers=False)["versions"]
        return replace(self._probe.info, small=self._small, versions=versions, seconds=seconds).to_dict()

    def _drop_probe(self) -> None:
        """Frees the device memory of an earlier probe before another model needs it."""
        if self._opening is None:
            return
        info = self._probe.info
        self._opening.close()
        self._opening = None
        if info.device_kind == "cuda" and info.source == "measured":
            free_gpu()

    def _is_traced(self, asked: Request) -> bool:
        gpu = asked.target.entry
        return gpu is not None and self._traces.find(asked, gpu) is not None


def _look_early(asked: Request, hub_config: dict[str, Any] | None) -> None:
    """Rejects a missing model before anything slow is imported."""
    from memorymark.models import hub
    from memorymark.models.workloads import look_early

    if hub_config is not None:
        hub.give(asked.model, asked.revision, hub_config)
    look_early(asked)


def _settled(asked: Request, *, predict_without_gpu: bool) -> Request:
    """Fills in what the request leaves open: where it runs, and whether a small stand-in is used, as on the CPU."""
    from memorymark.devices import accelerator_kind
    from memorymark.models.workloads import has_stand_in

    target = settled(asked.target, predict_without_gpu=predict_without_gpu)
    is_on_cpu = target.gpu is None and device_here(target, accelerator_kind())[0] == "cpu"
    small = is_on_cpu and has_stand_in(asked) if asked.small is None else asked.small
    return replace(asked, target=target, small=small)

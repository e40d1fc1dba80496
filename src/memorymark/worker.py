"""The child process in which a probe lives; ``memorymark.probe.process`` is its other end.

Commands come as JSON lines on standard input, answers go out as JSON lines on what was standard output.
Whatever a model prints goes to standard error. When the parent is gone, so is the worker.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module, metadata
from typing import IO, Any

from memorymark.blame import place_of
from memorymark.catalog import GpuEntry, find_gpu
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError
from memorymark.failures import lacks_host_memory
from memorymark.kept_traces import KeptTraces, default_folder
from memorymark.machine import foundation, versions
from memorymark.models.build_guard import guard_every_thread
from memorymark.probe.confinement import in_force, memory_limit_bytes
from memorymark.probe.process import too_large
from memorymark.request import Request
from memorymark.target import Target, default_gpu_target
from memorymark.trial import Trial

PROCESS_START = time.perf_counter()
# Traces of earlier requests that are kept: asking the same for another GPU, price or margin is then quick.
KEPT_TRACES = 4
# What models raise for images that they cannot take.
OF_A_WRONG_SIZE = (RuntimeError, ValueError, AssertionError, ArithmeticError)


class Worker:
    """Holds the probe and answers calls by name."""

    def __init__(self) -> None:
        self._probe: Any = None
        self._request: Request | None = None
        self._has_run = False  # whether a batch went through the model
        self._traced: dict[str, tuple[Any, str]] = {}
        self._on_disk: KeptTraces | None = None
        self._opened = 0
        self._loaded: dict[str, Any] | None = None

    def load(self, *, with_transformers: bool = True) -> dict[str, Any]:
        """Imports what is slow to import, so that ``open`` need not; starts no device."""
        _import("transformers.models.auto.modeling_auto" if with_transformers else "torch")
        if self._loaded is None:
            import torch

            from memorymark.devices import accelerator_kind

            self._loaded = {
                "device_kind": accelerator_kind() or "cpu",
                "versions": {
                    "torch": torch.__version__,
                    "transformers": metadata.version("transformers"),
                    "cuda": torch.version.cuda or "none",
                },
                "confinement": in_force(),
            }
        return self._loaded

    def keep_traces(self) -> dict[str, Any]:
        """Lets this worker keep traces on disk, for the user whose process it is; nobody else's worker does."""
        folder = default_folder()
        self._on_disk = KeptTraces(folder) if folder is not None else None
        return {"folder": str(folder) if folder is not None else None}

    def hub_config(self, name: str, revision: str | None) -> dict[str, Any]:
        """The config.json of a Hugging Face id as anybody may read it, for a worker that cannot fetch it itself."""
        from memorymark.models.hub import public_config

        return {"config": public_config(name, revision)}

    def open(
        self,
        request: dict[str, Any],
        predict_without_gpu: bool = False,
        hub_config: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Builds the model of a request on its device, or traces it for a GPU that is not here.

        ``hub_config`` is the config of its Hugging Face id, where this process cannot fetch it. What an earlier
        ``open`` made is dropped, but for a few traces.
        """
        from memorymark.models import hub
        from memorymark.models.workloads import has_stand_in, look_early, workload_of

        start = PROCESS_START if self._loaded is None else time.perf_counter()
        self._opened += 1
        self._request, self._has_run = None, False
        self._drop_probe()
        asked = Request.from_dict(request)
        if hub_config is not None:
            hub.give(asked.model, asked.revision, hub_config)
        look_early(asked)
        loaded = self.load(with_transformers=False)
        nothing_named = asked.target.gpu is None and asked.target.device == "auto"
        if nothing_named and predict_without_gpu and loaded["device_kind"] == "cpu":
            asked = replace(asked, target=default_gpu_target(asked.target))
        gpu = asked.target.gpu
        if gpu is not None:
            asked = replace(asked, small=bool(asked.small))
        if asked.name.is_of_transformers and not (gpu is not None and self._find_trace(asked, find_gpu(gpu))):
            self.load(with_transformers=True)
        imported = time.perf_counter()
        if gpu is not None:
            self._request = asked
            opened = time.perf_counter()
            sample = self._predict_for(gpu)
            self._has_run = True
        else:
            from memorymark.devices import open_device
            from memorymark.probe.measured import MeasuredProbe

            device = open_device(asked.target)
            if asked.small is None:
                asked = replace(asked, small=device.kind == "cpu" and has_stand_in(asked))
            self._request = asked
            device.synchronize()
            opened = time.perf_counter()
            workload = workload_of(asked)
            sample = workload.sample
            self._probe = MeasuredProbe(workload, asked.recipe, device)
            device.synchronize()
        _settle()
        seconds = {
            "import": imported - start,
            "device": opened - imported,
            "build": time.perf_counter() - opened,
        }
        self._probe.info = replace(
            self._probe.info, sample=sample, small=asked.small, versions=loaded["versions"], seconds=seconds
        )
        return self._info()

    def _drop_probe(self) -> None:
        """Frees what an earlier probe holds on a device, before another model needs the room."""
        if self._probe is None:
            return
        is_on_gpu = self._probe.info.device_kind == "cuda" and self._probe.info.source == "measured"
        self._probe = None
        if is_on_gpu:
            import torch

            gc.unfreeze()
            gc.collect()
            torch.cuda.empty_cache()

    def retarget(self, gpu: str) -> dict[str, Any]:
        """Predicts the same request for another GPU from here on."""
        before = self._probe.info
        self._predict_for(gpu)
        self._probe.info = replace(self._probe.info, sample=before.sample, small=before.small, versions=before.versions)
        return self._info()

    def reshape(self, seq_len: int) -> dict[str, Any]:
        """Goes on with samples of another length: the same model where it runs, a new trace where it is predicted."""
        from memorymark.models.workloads import workload_of

        start, before = time.perf_counter(), self._probe.info
        assert self._request is not None  # noqa: S101 - open() came first
        asked = self._request = replace(self._request, seq_len=seq_len)
        if asked.target.gpu is not None:
            sample = self._predict_for(asked.target.gpu)
        else:
            workload = workload_of(asked)
            sample = workload.sample
            self._probe.feed(workload)
        _settle()
        self._probe.info = replace(
            self._probe.info,
            sample=sample,
            small=before.small,
            versions=before.versions,
            seconds={"build": time.perf_counter() - start},
        )
        return self._info()

    def _info(self) -> dict[str, Any]:
        facts: dict[str, Any] = self._probe.info.to_dict()
        return facts

    def _predict_for(self, gpu_id: str) -> str:
        """Makes the probe for a GPU; gives the size of a sample in words."""
        from memorymark.probe.predicted import PredictedProbe

        asked, gpu = self._request, find_gpu(gpu_id)
        assert asked is not None  # noqa: S101 - open() came first
        cap_bytes = asked.target.memory_cap_bytes
        traced, sample = self._trace(asked, gpu)
        self._probe = PredictedProbe(traced, asked.recipe, gpu, memory_cap_bytes=cap_bytes)
        return sample

    def _trace(self, asked: Request, gpu: GpuEntry) -> tuple[Any, str]:
        """The step of a request as GPUs of this generation run it, traced once, and the size of a sample in words."""
        from memorymark.models.workloads import workload_of
        from memorymark.prediction.fake_step import as_traced, trace_training

        found = self._find_trace(asked, gpu)
        if found is not None:
            return found
        workload = workload_of(asked)
        made = trace_training(workload, as_traced(asked.recipe), gpu.capability), workload.sample
        self._remember(self._trace_key(asked, gpu), made)
        if self._on_disk is not None and not _runs_code(asked):
            from memorymark.prediction.trace_document import to_document

            document = {"sample": workload.sample, "step": to_document(made[0])}
            self._on_disk.keep(_hash(self._trace_key(asked, gpu)), document)
        return made

    def _find_trace(self, asked: Request, gpu: GpuEntry) -> tuple[Any, str] | None:
        """The trace of an earlier question, if one shared it: of this worker's, or on disk."""
        key = self._trace_key(asked, gpu)
        if key in self._traced:
            self._traced[key] = self._traced.pop(key)  # the most recently used comes last
            return self._traced[key]
        if self._on_disk is None or _runs_code(asked):
            return None
        document = self._on_disk.find(_hash(key))
        if document is None:
            return None
        from memorymark.prediction.trace_document import from_document

        try:
            made = from_document(document["step"]), str(document["sample"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # somebody has changed it
            self._on_disk.drop(_hash(key))
            return None
        self._remember(key, made)
        return made

    def _remember(self, key: str, made: tuple[Any, str]) -> None:
        self._traced[key] = made
        for oldest in list(self._traced)[:-KEPT_TRACES]:
            del self._traced[oldest]

    def _trace_key(self, asked: Request, gpu: GpuEntry) -> str:
        """The same for all that leads to the same trace: model, sample, recipe, kind of GPU and whatever builds it."""
        from memorymark.models.workloads import published_config
        from memorymark.prediction.cuda_choices import generation
        from memorymark.prediction.fake_step import as_traced

        version = self._opened if _runs_code(asked) else 0  # the code may have changed since the last time
        traced = replace(asked, target=Target(), recipe=as_traced(asked.recipe))
        depends_on = [versions(), foundation(), published_config(asked)]
        return json.dumps([generation(gpu.capability), version, traced.to_dict(), depends_on])

    def try_batch(self, batch_size: int) -> dict[str, Any]:
        """A quick trial."""
        return self._tried(self._probe.try_batch(batch_size))

    def try_from_start(self, batch_size: int) -> dict[str, Any]:
        """A quick trial of a training that starts with this size."""
        return self._tried(self._probe.try_from_start(batch_size))

    def forecast(self) -> dict[str, Any]:
        """The largest batch that should fit."""
        return {"maximum": self._probe.forecast()}

    def second_batch(self) -> dict[str, Any]:
        """The size of a second trial that would allow a forecast."""
        return {"batch_size": self._probe.second_batch()}

    def measure(self, batch_size: int) -> dict[str, Any]:
        """A full trial."""
        return self._tried(self._probe.measure(batch_size))

    def phase_peaks(self, batch_size: int) -> dict[str, Any]:
        """Peaks of the forward pass, forward and backward, and the full step."""
        peaks: dict[str, Any] = self._probe.phase_peaks(batch_size)
        return peaks

    def _tried(self, trial: Trial) -> dict[str, Any]:
        self._has_run = self._has_run or trial.fits
        return {"trial": trial.to_dict(), "clean": self._probe.clean}

    def blamed(self, crash: Exception) -> UsageError | None:
        """The error that names what was asked for, where a crash is most likely of it and not of this program.

        So it is if the model has never run and no GPU complains: images of a size that was asked for, or a config that
        is no catalog's.
        """
        asked = self._request
        if asked is None or self._has_run or "CUDA" in str(crash):
            return None
        said, side = _first_line(crash).rstrip("."), asked.image_size
        if side is not None and isinstance(crash, OF_A_WRONG_SIZE):
            return UsageError(
                f"give another --image-size; {asked.entry.id} cannot be trained on images of {side} x {side} pixels.",
                detail=said,
            )
        if asked.name.kind in ("config", "hub", "path") and not asked.trust_remote_code:
            return UsageError(
                f"the config of {asked.entry.id} makes a model that does not run; check its values against those of a "
                "config.json that works.",
                detail=said,
            )
        return None


def _runs_code(asked: Request) -> bool:
    return asked.name.runs_code or asked.trust_remote_code


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _import(module: str) -> None:
    """Imports without looking for garbage: what is imported stays, and looking through it takes a second in all."""
    if module in sys.modules:
        return
    gc.disable()
    try:
        import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _settle() -> None:
    """What is alive now stays: leaving it out makes later collections quick, which look through all that is not."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def main() -> None:
    """Answers commands until standard input ends."""
    answers = _claim_stdout()
    guard_every_thread()
    worker = Worker()
    for command in _commands():
        answer = _answer(worker, command["call"], command["arguments"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(worker: Worker, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": getattr(worker, call)(**arguments)}
    except MemoryMarkError as error:
        return _error(error)
    except Exception as error:
        limit_bytes = memory_limit_bytes()
        if limit_bytes is not None and lacks_host_memory(error):
            return _error(too_large(limit_bytes))
        traceback.print_exc()
        refused = worker.blamed(error)
        return _crash(error) if refused is None else _error(refused)


def _crash(error: Exception) -> dict[str, Any]:
    return {"crash": _first_line(error) + place_of(error)}


def _error(error: MemoryMarkError) -> dict[str, Any]:
    facts: dict[str, Any] = {"sentence": error.sentence, "detail": error.detail}
    if isinstance(error, DoesNotFitError):
        facts = {"sentence": error.what, "shortfall_bytes": error.shortfall_bytes, "hint": error.hint}
    return {"error": {"type": type(error).__name__, **facts}}


def _first_line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *said[:1]])


def _claim_stdout() -> IO[str]:
    """Takes standard output for the answers; from here on, prints go to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _commands() -> Iterator[dict[str, Any]]:
    """Commands as they come. A thread reads them, so that a parent's death ends even a busy worker."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(lines.get())

"""The child process in which a probe lives; ``memorymark.probe.remote`` is its other end.

Commands come as JSON lines on standard input, answers go out as JSON lines on what was standard output.
Whatever a model prints goes to standard error. When the parent is gone, so is the worker.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import IO, Any

from memorymark.catalog import find_gpu
from memorymark.errors import DoesNotFitError, MemoryMarkError
from memorymark.request import Request
from memorymark.target import DEFAULT_GPU, default_gpu_target

PROCESS_START = time.perf_counter()


class Worker:
    """Holds the probe and answers calls by name."""

    def __init__(self) -> None:
        self._probe: Any = None
        self._predicted_request: Request | None = None
        self._traced: dict[str, Any] = {}

    def open(self, request: dict[str, Any], predict_without_gpu: bool = False) -> dict[str, Any]:
        """Builds the model of a request on its device, or traces it for a GPU that is not here."""
        import torch
        import transformers
        import transformers.models.auto.modeling_auto  # the slow part, which the build would otherwise pay for

        from memorymark.builtin import builtin_workload, sample_size
        from memorymark.devices import is_accelerator_here

        imported = time.perf_counter()
        asked = Request.from_dict(request)
        nothing_named = asked.target.gpu is None and asked.target.device == "auto"
        if nothing_named and predict_without_gpu and not is_accelerator_here():
            asked = replace(asked, target=default_gpu_target(asked.target))
        if asked.target.gpu is not None:
            asked = self._predicted_request = replace(asked, small=bool(asked.small))
            opened = time.perf_counter()
            self._predict_for(asked.target.gpu or DEFAULT_GPU)
        else:
            from memorymark.devices import open_device
            from memorymark.probe.measured import MeasuredProbe

            device = open_device(asked.target)
            if asked.small is None:
                asked = replace(asked, small=device.kind == "cpu")
            device.synchronize()
            opened = time.perf_counter()
            self._probe = MeasuredProbe(builtin_workload(asked), asked.recipe, device)
            device.synchronize()
        # What is alive now stays: leaving it out makes the collections after a failed trial quick.
        gc.collect()
        gc.freeze()
        seconds = {
            "import": imported - PROCESS_START,
            "device": opened - imported,
            "build": time.perf_counter() - opened,
        }
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "cuda": torch.version.cuda or "none",
        }
        sample = f"{sample_size(asked)} {asked.entry.sample_unit}"
        self._probe.info = replace(
            self._probe.info, sample=sample, small=asked.small, versions=versions, seconds=seconds
        )
        return asdict(self._probe.info)

    def retarget(self, gpu: str) -> dict[str, Any]:
        """Predicts the same request for another GPU from here on."""
        before = self._probe.info
        self._predict_for(gpu)
        self._probe.info = replace(self._probe.info, sample=before.sample, small=before.small, versions=before.versions)
        return asdict(self._probe.info)

    def _predict_for(self, gpu_id: str) -> None:
        from memorymark.builtin import builtin_workload
        from memorymark.predict.cuda_choices import generation
        from memorymark.predict.fake_step import trace_training
        from memorymark.probe.predicted import PredictedProbe

        asked, gpu = self._predicted_request, find_gpu(gpu_id)
        assert asked is not None  # noqa: S101 - open() came first
        same_choices = generation(gpu.capability)
        if same_choices not in self._traced:
            self._traced[same_choices] = trace_training(builtin_workload(asked), asked.recipe, gpu.capability)
        cap_bytes = asked.target.memory_cap_bytes
        self._probe = PredictedProbe(self._traced[same_choices], asked.recipe, gpu, memory_cap_bytes=cap_bytes)

    def try_batch(self, batch_size: int) -> dict[str, Any]:
        """A quick trial."""
        trial = self._probe.try_batch(batch_size)
        return {"trial": trial.to_dict(), "clean": self._probe.clean}

    def forecast(self) -> dict[str, Any]:
        """The largest batch that should fit."""
        return {"maximum": self._probe.forecast()}

    def measure(self, batch_size: int) -> dict[str, Any]:
        """A full trial."""
        trial = self._probe.measure(batch_size)
        return {"trial": trial.to_dict(), "clean": self._probe.clean}

    def phase_peaks(self, batch_size: int) -> dict[str, Any]:
        """Peaks of the forward pass, forward and backward, and the full step."""
        peaks: dict[str, Any] = self._probe.phase_peaks(batch_size)
        return peaks


def main() -> None:
    """Answers commands until standard input ends."""
    answers = _claim_stdout()
    worker = Worker()
    for command in _commands():
        answer = _answer(getattr(worker, command["call"]), command["arguments"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(call: Callable[..., dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": call(**arguments)}
    except MemoryMarkError as error:
        shortfall = error.shortfall_bytes if isinstance(error, DoesNotFitError) else None
        return {"error": {"type": type(error).__name__, "message": str(error), "shortfall_bytes": shortfall}}
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"crash": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}


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

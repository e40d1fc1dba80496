"""A probe in a worker process: a crash there ends the worker, not the caller."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from memorymark.catalog import GpuEntry
from memorymark.devices.resolve import for_gpu
from memorymark.devices.snapshots import expand
from memorymark.errors import MemoryMarkError, TooLargeForWorkerError, UsageError, WorkerError
from memorymark.messages import Message
from memorymark.profiles.stored import profiles_for
from memorymark.question.request import Request
from memorymark.results.explanation import Anatomy
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.worker.fetching import fetched_config
from memorymark.worker.supervisor import AnyWorker, FreshWorkers, Workers

DEFAULT_TIME_LIMIT_SECONDS = 600.0
# After these errors a worker is gone, hangs, or still holds memory.
NOT_FIT_TO_GO_ON = (WorkerError, TooLargeForWorkerError)


class RemoteProbe:
    """Runs a probe in a child process; a context manager that leaves no process behind.

    The probe measures, or predicts if the request names a GPU. With ``predict_without_gpu`` it also predicts for the
    default GPU if this machine has none and the request leaves the device open. ``keep_traces`` lets the worker keep
    its traces on disk; set it only if the worker serves its own user.
    """

    def __init__(
        self,
        request: Request,
        *,
        time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
        predict_without_gpu: bool = False,
        workers: Workers | None = None,
        keep_traces: bool = False,
    ) -> None:
        if not 0 < time_limit_seconds <= threading.TIMEOUT_MAX:
            raise UsageError(
                Message(
                    "{time_limit} must be a number of seconds above 0 and up to {most:.0f}, not {given:g}.",
                    most=threading.TIMEOUT_MAX,
                    given=time_limit_seconds,
                ),
                code="out_of_range",
                field="time_limit",
                given=time_limit_seconds,
                allowed={"above": 0, "maximum": threading.TIMEOUT_MAX},
            )
        self._request, self._time_limit_seconds = request, time_limit_seconds
        self._predict_without_gpu, self._keep_traces = predict_without_gpu, keep_traces
        self._workers = workers or FreshWorkers()
        self._worker: AnyWorker | None = None
        self.info: ProbeInfo

    def __enter__(self) -> RemoteProbe:
        self._open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._give_back()

    def try_batch(self, batch_size: int) -> Trial:
        """Does it fit?"""
        return self._trial("try_batch", batch_size)

    def try_from_start(self, batch_size: int) -> Trial:
        """Does it fit as the first step of a training?"""
        return self._trial("try_from_start", batch_size)

    def forecast(self) -> int | None:
        """The largest batch that should fit."""
        maximum: int | None = self.call("forecast")["maximum"]
        return maximum

    def second_batch(self) -> int | None:
        """The size of a second trial that would allow a forecast."""
        batch_size: int | None = self.call("second_batch")["batch_size"]
        return batch_size

    def measure(self, batch_size: int) -> Trial:
        """The whole answer."""
        return self._trial("measure", batch_size)

    def explain(self, batch_size: int) -> Anatomy:
        """Where the memory goes."""
        answer = self.call("explain", batch_size=batch_size)
        if not answer["clean"]:
            self._kill()
        return Anatomy.from_dict(answer["anatomy"])

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """The allocator's history."""
        return expand(self.call("snapshot", batch_size=batch_size))

    def keep_outputs(self, keep: bool) -> None:
        """Continues with the loop that keeps the model's outputs, or that drops them."""
        recipe = replace(self._request.recipe, keep_outputs=keep)
        self._request = replace(self._request, recipe=recipe)
        if self._worker is None:
            self._open()
        else:
            self.call("keep_outputs", keep=keep)

    def retarget(self, gpu: GpuEntry) -> None:
        """Predicts for another GPU from here on."""
        self._request = replace(self._request, target=for_gpu(self._request.target, gpu))
        if self._worker is None:
            self._open()
        else:
            self.info = ProbeInfo.from_dict(self.call("retarget", gpu=gpu.id, gpu_facts=gpu.own))

    def reshape(self, seq_len: int, mean_tokens: int | None = None) -> None:
        """Continues with samples of another length, or rows packed with samples of another mean length."""
        self._request = self._request.at_length(seq_len, mean_tokens)
        if self._worker is None:
            self._open()
        else:
            self.info = ProbeInfo.from_dict(self.call("reshape", seq_len=seq_len, mean_tokens=mean_tokens))

    def phase_peaks(self, batch_size: int) -> dict[str, int]:
        """Peak allocated bytes of the forward pass, of forward and backward, and of the full step."""
        return self.call("phase_peaks", batch_size=batch_size)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Calls the worker, replacing it first if the last one is gone."""
        if self._worker is None:
            self._open()
        assert self._worker is not None  # noqa: S101 - _open has just set it
        try:
            return self._worker.call(name, arguments, self._time_limit_seconds)
        except BaseException as error:
            answered = isinstance(error, MemoryMarkError) and not isinstance(error, NOT_FIT_TO_GO_ON)
            self._give_back() if answered else self._kill()
            raise

    def _trial(self, name: str, batch_size: int) -> Trial:
        answer = self.call(name, batch_size=batch_size)
        if not answer["clean"]:  # memory was left behind: the next call starts on a fresh worker
            self._kill()
        return Trial.from_dict(answer["trial"])

    def _open(self) -> None:
        target = self._request.target
        may_predict = target.gpu is not None or self._predict_without_gpu
        # Read here: a sealed worker can open no files.
        profiles = profiles_for(target.profile, target.gpu) if may_predict else {}
        self._worker = self._workers.take()
        if self._keep_traces:
            self.call("keep_traces")
        try:
            hub_config = fetched_config(self._request) if self._worker.is_sealed else None
        except BaseException:
            self._give_back()
            raise
        self.info = ProbeInfo.from_dict(
            self.call(
                "open",
                request=self._request.to_dict(),
                predict_without_gpu=self._predict_without_gpu,
                hub_config=hub_config,
                profiles=profiles,
            )
        )

    def _kill(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _give_back(self) -> None:
        if self._worker is not None:
            self._workers.give_back(self._worker)
            self._worker = None

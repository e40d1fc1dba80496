"""A probe that lives in a worker process: what goes wrong there ends the worker, not the caller."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from memorymark import errors
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError, WorkerError
from memorymark.probe.base import ProbeInfo
from memorymark.request import Request
from memorymark.trial import Trial

DEFAULT_TIME_LIMIT_SECONDS = 600.0
# Without the working directory on the path: a random.py lying there must not stand in for Python's own.
START_WORKER = """
import sys
sys.path[:] = [path for path in sys.path if path] + sys.argv[1:]
from memorymark.worker import main
main()
"""


class RemoteProbe:
    """Runs a probe in a child process; a context manager that leaves no process behind.

    The probe measures, or predicts if the request names a GPU. With ``predict_without_gpu`` it also predicts, for the
    default GPU, where there is none and the request leaves the device open.
    """

    def __init__(
        self,
        request: Request,
        *,
        time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
        predict_without_gpu: bool = False,
    ) -> None:
        if not 0 < time_limit_seconds <= threading.TIMEOUT_MAX:
            limits = f"above 0 and up to {threading.TIMEOUT_MAX:.0f}"
            raise UsageError(f"--time-limit must be a number of seconds {limits}, not {time_limit_seconds:g}.")
        self._request, self._time_limit_seconds = request, time_limit_seconds
        self._predict_without_gpu = predict_without_gpu
        self._worker: _WorkerProcess | None = None
        self.info: ProbeInfo

    def __enter__(self) -> RemoteProbe:
        self._open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()

    @property
    def pid(self) -> int | None:
        """The worker's process id while it lives."""
        return self._worker.process.pid if self._worker else None

    def try_batch(self, batch_size: int) -> Trial:
        """Does it fit?"""
        return self._trial("try_batch", batch_size)

    def forecast(self) -> int | None:
        """The largest batch that should fit."""
        answer: int | None = self.call("forecast")["maximum"]
        return answer

    def measure(self, batch_size: int) -> Trial:
        """The whole answer."""
        return self._trial("measure", batch_size)

    def retarget(self, gpu: str) -> None:
        """Predicts for another GPU from here on."""
        self.info = _info(self.call("retarget", gpu=gpu))

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Asks the worker, replacing it first if the last one is gone."""
        if self._worker is None:
            self._open()
        assert self._worker is not None  # noqa: S101 - _open has just set it
        try:
            return self._worker.call(name, arguments, self._time_limit_seconds)
        except BaseException:
            self._close()
            raise

    def _trial(self, name: str, batch_size: int) -> Trial:
        answer = self.call(name, batch_size=batch_size)
        if not answer["clean"]:
            self._close()  # memory was left behind: the next call starts on a fresh worker
        return Trial.from_dict(answer["trial"])

    def _open(self) -> None:
        self._worker = _WorkerProcess()
        self.info = _info(
            self.call("open", request=self._request.to_dict(), predict_without_gpu=self._predict_without_gpu)
        )

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


class _WorkerProcess:
    """The child, its two pipes, and a file that catches what it prints."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in kill()
        # A session of its own: Ctrl-C reaches only the parent, which then ends the child and all it started.
        self.process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", START_WORKER, str(Path(__file__).parents[2])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            # On a busy host, threads that spin while they wait make a CPU step several times slower.
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe above
        try:
            self.process.stdin.write(json.dumps({"call": name, "arguments": arguments}) + "\n")
            self.process.stdin.flush()
            line = self._answers.get(timeout=time_limit_seconds)
        except queue.Empty:
            raise WorkerError(
                f"the worker did not answer within {time_limit_seconds:g} s and was stopped; "
                "raise --time-limit if starting or the step is really that slow."
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise WorkerError(self._epitaph())
        try:
            answer = json.loads(line)
        except ValueError:
            raise WorkerError(f"the worker answered with something else than JSON: {line.strip()!r}") from None
        return _result(answer)

    def kill(self) -> None:
        """Ends the worker and whatever it started, and waits until the device has its memory back."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            with suppress(BrokenPipeError):  # closing flushes a command that nobody reads any more
                if stream is not None:
                    stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe above
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _epitaph(self) -> str:
        code = self.process.wait()
        if code == -signal.SIGKILL:
            return (
                "the worker was killed (signal 9), most likely because the host ran out of memory; "
                "free some, or lower --max-batch."
            )
        if code == -signal.SIGILL:
            return "the worker met an instruction that this processor lacks; try --precision fp32."
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"the worker ended {how}" + (f": {said[-1]}" if said else ".")


def _info(facts: dict[str, Any]) -> ProbeInfo:
    return ProbeInfo(**{**facts, "unknown_operations": tuple(facts["unknown_operations"])})


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if "result" in answer:
        result: dict[str, Any] = answer["result"]
        return result
    if "crash" in answer:
        raise WorkerError(f"the training step crashed: {answer['crash']}")
    error = answer["error"]
    kind: type[MemoryMarkError] = getattr(errors, error["type"])
    if kind is DoesNotFitError:
        raise DoesNotFitError(error["message"], error["shortfall_bytes"])
    raise kind(error["message"])

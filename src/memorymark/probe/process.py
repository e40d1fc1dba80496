"""The worker process: how it is started, asked and ended; ``memorymark.worker`` is what runs in it."""

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
from typing import Any, Protocol

from memorymark import errors
from memorymark.errors import DoesNotFitError, MemoryMarkError, WorkerError

# Without the working directory on the path: a random.py lying there must not stand in for Python's own.
START_WORKER = """
import sys
sys.path[:] = [path for path in sys.path if path] + sys.argv[1:]
from memorymark.worker import main
main()
"""


class WorkerProcess:
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
        self._is_killed = False
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Asks the worker and waits for its answer; an error of its own is raised here."""
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

    def interrupt(self) -> None:
        """Ends the worker and whatever it started; whoever waits for its answer hears that it is gone."""
        if self.process.returncode is None:  # else its process id may be somebody else's by now
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends the worker and whatever it started, and waits until the device has its memory back."""
        if self._is_killed:  # its process id may be somebody else's by now
            return
        self._is_killed = True
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


class Workers(Protocol):
    """Where a probe gets its worker process from, and where it goes afterwards."""

    def take(self) -> WorkerProcess:
        """A worker that nobody else uses."""

    def give_back(self, worker: WorkerProcess) -> None:
        """Takes back a worker that has answered all it was asked; one that failed is killed instead."""


class FreshWorkers:
    """A new worker each time, gone afterwards, and the device's memory with it."""

    def take(self) -> WorkerProcess:
        """Starts a worker."""
        return WorkerProcess()

    def give_back(self, worker: WorkerProcess) -> None:
        """Ends it."""
        worker.kill()


class KeptWorkers:
    """One worker from somewhere else, kept from use to use until it is closed; a dead one is replaced."""

    def __init__(self, workers: Workers | None = None) -> None:
        self._workers: Workers = workers or FreshWorkers()
        self._kept: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        """The worker that was used before, or another one."""
        if self._kept is None or self._kept.process.poll() is not None:
            self._kept = self._workers.take()
        return self._kept

    def give_back(self, worker: WorkerProcess) -> None:
        """Keeps it."""

    def close(self) -> None:
        """Gives the worker back to where it came from."""
        if self._kept is not None:
            self._workers.give_back(self._kept)
            self._kept = None


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if "result" in answer:
        result: dict[str, Any] = answer["result"]
        return result
    if "crash" in answer:
        raise WorkerError(f"the training step crashed: {answer['crash']}")
    error = answer["error"]
    kind: type[MemoryMarkError] = getattr(errors, error["type"])
    if kind is DoesNotFitError:
        raise DoesNotFitError(error["message"], error["shortfall_bytes"], hint=error["hint"])
    raise kind(error["message"])

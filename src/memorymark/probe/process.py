"""The worker process: how it is started, asked and ended; ``memorymark.worker`` is what runs in it."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from memorymark import errors
from memorymark.errors import (
    DoesNotFitError,
    MemoryMarkError,
    TooLargeForWorkerError,
    WorkerError,
    WorkerLostError,
)
from memorymark.probe.confinement import TOO_MUCH_MEMORY_EXIT, Confinement, make_home
from memorymark.units import format_bytes

# Without the working directory on the path: a random.py lying there must not stand in for Python's own.
START_WORKER = """
import sys
sys.path[:] = [path for path in sys.path if path] + sys.argv[1:2]
from memorymark.probe.confinement import confine
for confinement in sys.argv[2:]:
    confine(confinement)
from memorymark.worker import main
main()
"""


class WorkerProcess:
    """The child, its two pipes, and a file that catches what it prints."""

    def __init__(self, confinement: Confinement | None = None) -> None:
        self.confinement = confinement
        self._home = make_home() if confinement is not None else None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in kill()
        command = [sys.executable, "-c", START_WORKER, str(Path(__file__).parents[2])]
        environment: dict[str, str] = dict(os.environ)
        if confinement is not None and self._home is not None:
            command.append(confinement.to_argument(self._home))
            environment = confinement.environment(self._home)
        # A session of its own: Ctrl-C reaches only the parent, which then ends the child and all it started.
        self.process = subprocess.Popen(  # noqa: S603 - our own code
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            # On a busy host, threads that spin while they wait make a CPU step several times slower.
            env={"OMP_WAIT_POLICY": "PASSIVE", **environment, "PYTHONUNBUFFERED": "1"},
            cwd=self._home if self.is_sealed else None,
            text=True,
            encoding="utf-8",
        )
        self._is_killed = False
        self._is_interrupted = threading.Event()
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_sealed(self) -> bool:
        """Whether it can reach neither the network nor the operator's files."""
        return self.confinement is not None and self.confinement.sealed

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Asks the worker and waits for its answer; an error of its own is raised here."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe above
        try:
            self.process.stdin.write(json.dumps({"call": name, "arguments": arguments}) + "\n")
            self.process.stdin.flush()
            line = self._answers.get(timeout=time_limit_seconds)
        except queue.Empty:
            raise WorkerLostError(
                f"the worker did not answer within {time_limit_seconds:g} s and was stopped; "
                "raise --time-limit if starting or the step is really that slow."
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise self._epitaph()
        try:
            answer = json.loads(line)
        except ValueError:
            raise WorkerError("the worker answered with something else than JSON.", detail=repr(line.strip())) from None
        return _result(answer)

    def interrupt(self) -> None:
        """Ends the worker and whatever it started; whoever waits for its answer hears that it is gone."""
        self._is_interrupted.set()  # first: the process takes a moment to die, and nobody may use it meanwhile
        if self.process.returncode is None:  # else its process id may be somebody else's by now
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def is_fit(self) -> bool:
        """Whether it may be asked anything more: nobody has ended it, and its pipe is open."""
        if self._is_killed or self._is_interrupted.is_set():
            return False
        return self.process.poll() is None and self._reader.is_alive()

    def answers(self, time_limit_seconds: float) -> bool:
        """Whether it is there: one that was killed a moment ago may look alive until it is asked."""
        if not self.is_fit:
            return False
        try:
            self.call("load", {}, time_limit_seconds)
        except WorkerError:
            return False
        return self.is_fit

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
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe above
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _epitaph(self) -> MemoryMarkError:
        code = self.process.wait()
        limit_bytes = self.confinement.memory_bytes if self.confinement is not None else None
        if code == TOO_MUCH_MEMORY_EXIT and limit_bytes is not None:
            return too_large(limit_bytes)
        if code == -signal.SIGKILL:
            return WorkerLostError(
                "the worker was killed (signal 9), most likely because the host ran out of memory; "
                "free some, or lower --max-batch."
            )
        if code == -signal.SIGILL:
            return WorkerLostError("the worker met an instruction that this processor lacks; try --precision fp32.")
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()
        return WorkerLostError(f"the worker ended {how}.", detail=said[-1] if said else "")


def too_large(limit_bytes: int) -> TooLargeForWorkerError:
    """What to say of a question that took a worker more memory than it may take."""
    return TooLargeForWorkerError(
        f"this takes more memory than a worker of the service may use ({format_bytes(limit_bytes)}); ask for a smaller "
        "model or sample, or have the operator raise --worker-memory-gib."
    )


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
        if self._kept is not None and not self._kept.is_fit:
            self.close()
        if self._kept is None:
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
        raise WorkerError("the training step crashed.", detail=answer["crash"])
    error = answer["error"]
    kind: type[MemoryMarkError] = getattr(errors, error["type"])
    if issubclass(kind, DoesNotFitError):
        raise kind(error["sentence"], error["shortfall_bytes"], hint=error["hint"])
    raise kind(error["sentence"], detail=error["detail"])

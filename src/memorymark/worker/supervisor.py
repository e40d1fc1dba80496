"""Starts, calls and ends the worker process, which runs ``memorymark.worker.child``."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, Protocol

from memorymark.errors import MemoryMarkError, TooLargeForWorkerError, WorkerError, WorkerLostError
from memorymark.messages import Message
from memorymark.suggestions import Proposal
from memorymark.units import format_bytes
from memorymark.worker.confinement import TOO_MUCH_MEMORY_EXIT, Confinement, make_home

# Without the working directory on the path: a random.py there must not shadow Python's own.
START_WORKER = """
import sys
sys.path[:] = [path for path in sys.path if path] + sys.argv[1:2]
from memorymark.worker.confinement import confine
for confinement in sys.argv[2:]:
    confine(confinement)
from memorymark.worker.child import main
main()
"""


def launch(command: list[str], environment: dict[str, str], folder: str | None, stderr: IO[bytes]) -> Popen[str]:
    """Starts a worker process with pipes to its standard input and output."""
    return Popen(  # noqa: S603 - our own code
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        # In its own session: Ctrl-C reaches only the parent, which then ends the child and everything it started.
        start_new_session=True,
        env=environment,
        cwd=folder,
        text=True,
        encoding="utf-8",
    )


class WorkerProcess:
    """A worker process, its two pipes, and a file that catches what it prints."""

    def __init__(self, confinement: Confinement | None = None) -> None:
        self.confinement = confinement
        self._home = make_home() if confinement is not None else None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in kill()
        command = [sys.executable, "-c", START_WORKER, str(Path(__file__).parents[2])]
        environment: dict[str, str] = dict(os.environ)
        if confinement is not None and self._home is not None:
            command.append(confinement.to_argument(self._home))
            environment = confinement.environment(self._home)
        # On a busy host, threads that spin while they wait make a CPU step several times slower.
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **environment, "PYTHONUNBUFFERED": "1"}
        self.process = launch(command, environment, self._home if self.is_sealed else None, self._stderr)
        self._is_killed = False
        self._is_interrupted = threading.Event()
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_sealed(self) -> bool:
        """Whether the worker can reach neither the network nor the operator's files."""
        return self.confinement is not None and self.confinement.sealed

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Calls the worker and waits for its answer; raises the worker's errors here."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe above
        try:
            self.process.stdin.write(json.dumps({"call": name, "arguments": arguments}) + "\n")
            self.process.stdin.flush()
            line = self._answers.get(timeout=time_limit_seconds)
        except queue.Empty:
            raise WorkerLostError(
                f"the worker did not answer within {time_limit_seconds:g} s and was stopped",
                hint=Message("raise {time_limit} if the start or the step really takes that long"),
                field="time_limit",
                given=time_limit_seconds,
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise self._epitaph()
        try:
            answer = json.loads(line)
        except ValueError:
            raise WorkerError("the worker's answer is not JSON.", detail=repr(line.strip())) from None
        return _result(answer)

    def interrupt(self) -> None:
        """Ends the worker and everything it started; a pending ``call`` raises."""
        self._is_interrupted.set()  # first, because the process takes a moment to die and must not be used meanwhile
        if self.process.returncode is None:  # else another process may have its id by now
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def is_fit(self) -> bool:
        """Tells whether the worker can take another call: it was not ended, and its pipe is open."""
        if self._is_killed or self._is_interrupted.is_set():
            return False
        return self.process.poll() is None and self._reader.is_alive()

    def kill(self) -> None:
        """Ends the worker and everything it started, and waits until its device memory is free."""
        if self._is_killed:  # another process may have its id by now
            return
        self._is_killed = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            with suppress(BrokenPipeError):  # closing flushes a command that is no longer read
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
                "the worker was killed (signal 9), most likely because the host ran out of memory",
                hint=Message("free some, or lower {max_batch}"),
            )
        if code == -signal.SIGILL:
            return WorkerLostError(
                "the worker hit an instruction that this processor does not support",
                hint=Message("try {precision:fp32}"),
                proposals=[Proposal("fp32", {"precision": "fp32"})],
            )
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()
        return WorkerLostError(f"the worker ended {how}.", detail=said[-1] if said else "")


def too_large(limit_bytes: int) -> TooLargeForWorkerError:
    """Returns the error for a question that made a worker exceed its memory limit."""
    return TooLargeForWorkerError(
        Message(
            "this needs more memory than a worker of the service may use ({limit}); ask for a smaller model or sample, "
            "or have the operator raise {serve.worker_memory_gib}.",
            limit=format_bytes(limit_bytes),
        )
    )


class AnyWorker(Protocol):
    """A worker, wherever its process runs."""

    @property
    def is_sealed(self) -> bool:
        """Whether it can reach neither the network nor its user's files."""

    @property
    def is_fit(self) -> bool:
        """Whether it can take another call."""

    @property
    def pid(self) -> int | None:
        """Its process id on its machine; ``None`` if that is not known yet."""

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Calls it and waits for its answer; raises its errors here."""

    def interrupt(self) -> None:
        """Ends it; a pending ``call`` raises."""

    def kill(self) -> None:
        """Ends it and waits until its device memory is free."""


class Workers(Protocol):
    """A source of workers, which takes them back after use."""

    def take(self) -> AnyWorker:
        """Returns a worker that is not in use."""

    def give_back(self, worker: AnyWorker) -> None:
        """Takes back a worker that answered every call; the caller kills one that failed instead."""


class FreshWorkers:
    """Starts a new worker each time and ends it afterwards, which frees its device memory."""

    def take(self) -> WorkerProcess:
        """Starts a worker."""
        return WorkerProcess()

    def give_back(self, worker: AnyWorker) -> None:
        """Ends it."""
        worker.kill()


class KeptWorkers:
    """Keeps one worker of another source from use to use until closed; replaces a dead one."""

    def __init__(self, workers: Workers | None = None) -> None:
        self._workers: Workers = workers or FreshWorkers()
        self._kept: AnyWorker | None = None
        self._ended = False

    def take(self) -> AnyWorker:
        """Returns the worker used before, or a new one if that is dead."""
        if self._ended:
            raise WorkerLostError("the work was stopped.")
        if self._kept is not None and not self._kept.is_fit:
            self.close()
        if self._kept is None:
            self._kept = self._workers.take()
        return self._kept

    def give_back(self, worker: AnyWorker) -> None:
        """Keeps it."""

    def end(self) -> None:
        """Ends the worker, even while another thread waits for its answer; there will be no other."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """Gives the worker back to its source."""
        if self._kept is not None:
            self._workers.give_back(self._kept)
            self._kept = None


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if "result" in answer:
        result: dict[str, Any] = answer["result"]
        return result
    if "crash" in answer:
        raise WorkerError("the training step crashed.", detail=answer["crash"])
    raise MemoryMarkError.from_dict(answer["error"])

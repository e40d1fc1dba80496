"""Runs a user's script as Python would, with a detector inside, and returns what it observed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from memorymark.watch.inside import OPERATIONS, RECORD, RECORDED_STEP
from memorymark.watch.observation import Observation
from memorymark.watch.operations import StepOperations
from memorymark.watch.recording import StepRecording

BOOTSTRAP = Path(__file__).parent / "bootstrap"
INTERRUPT_AFTER_SECONDS = 1.0
FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True)
class WatchedRun:
    """The result of watching a script; ``exit_code`` is the script's own, 128 and more for a signal."""

    observation: Observation
    exit_code: int


def run_watched(arguments: Sequence[str]) -> WatchedRun:
    """Runs ``python ARGUMENTS`` to its end with this process's input and output."""
    with tempfile.TemporaryDirectory(prefix="memorymark-watch-") as folder:
        with _signals_are_the_scripts() as forward_to:
            # S603: what is run is what the user asked to run.
            process = subprocess.Popen([sys.executable, *arguments], env=_environment(folder))  # noqa: S603
            forward_to.append(process)
            code = process.wait()
        observation = _read(Path(folder))
    return WatchedRun(observation, code if code >= 0 else 128 - code)


def _environment(folder: str) -> dict[str, str]:
    """Returns an environment in which Python finds our sitecustomize first; that one restores PYTHONPATH."""
    before = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(BOOTSTRAP), before))),
        "MEMORYMARK_WATCH_RECORD": folder,
        "MEMORYMARK_WATCH_PACKAGE": str(Path(__file__).parents[1]),
    }
    if before is not None:
        environment["MEMORYMARK_WATCH_PYTHONPATH"] = before
    return environment


@contextmanager
def _signals_are_the_scripts() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Makes signals end the script, not this process, which still has to report.

    A terminal sends Ctrl-C to both. Other signals to this process are passed on; an interrupt only if the script still
    runs a moment later, because its sender may have sent it to both too.
    """
    running: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _in_foreground():
            return
        if number == signal.SIGINT:
            later = threading.Timer(INTERRUPT_AFTER_SECONDS, send, [number])
            later.daemon = True
            later.start()
        else:
            send(number)

    def send(number: int) -> None:
        for process in running:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", *FORWARDED) if hasattr(signal, name)]
    # Functions, never SIG_IGN: the script would inherit that.
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Tells whether a terminal's Ctrl-C reaches both this process and its children."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _read(folder: Path) -> Observation:
    record = _json(folder / RECORD)
    observation = Observation.from_dict(record) if record is not None else Observation()
    step, operations = _json(folder / RECORDED_STEP), _json(folder / OPERATIONS)
    return replace(
        observation,
        recording=None if step is None else StepRecording.from_dict(step),
        operations=None if operations is None else StepOperations.from_dict(operations),
    )


def _json(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document

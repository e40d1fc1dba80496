"""Inside the watched process: starts a detector once torch is imported, and saves what it observes."""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memorymark.watch.detector import Detector

RECORD, RECORDED_STEP, OPERATIONS = "record.json", "step.json", "operations.json"
WRITE_EVERY_SECONDS = 0.5
ALWAYS_WRITTEN_STEPS = 3


def watch_this_process(folder: str) -> None:
    """Watches what this process trains with torch; writes the record into the folder."""
    sys.meta_path.insert(0, _AfterImport("torch", lambda: _start(Path(folder))))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a package has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds the package as Python would, and wraps its loader."""
        if fullname != self._name:
            return None
        # Some libraries only ask whether there is one, such as datasets.
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute: Callable[[ModuleType], None] = spec.loader.exec_module
            spec.loader.exec_module = self._listening(execute)  # type: ignore[assignment,method-assign]
        return spec

    def _listening(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            try:
                execute(module)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
                raise
            self._then()

        return exec_module


def _start(folder: Path) -> None:
    record = _Record(folder)
    try:
        from memorymark.devices import nvml
        from memorymark.watch.detector import Detector
        from memorymark.watch.gpu_meter import open_gpu_of
        from memorymark.watch.hooks import install

        # CUDA has not started yet: memory in use on the GPUs belongs to other processes.
        held = dict(enumerate(state.used_bytes for state in nvml.gpus()))
        detector = Detector(record.on_step, open_gpu=lambda device: open_gpu_of(device, held.get(device.index or 0, 0)))
        install(detector)
    except Exception as error:  # torch is too old or broken: the script runs unwatched
        record.write({"torch_imported": True, "problem": f"{type(error).__name__}: {error}"})
        return
    record.write({"torch_imported": True})
    atexit.register(_at_exit, detector, record)


def _at_exit(detector: Detector, record: _Record) -> None:
    if os.getpid() != record.process:
        return
    with suppress(KeyboardInterrupt):  # the user is in a hurry; the last record counts
        detector.ended(getattr(sys, "last_value", None))
        record.update(detector)


class _Record:
    """The file that outlives the process, whatever ends it."""

    def __init__(self, folder: Path) -> None:
        self.process = os.getpid()
        self._folder = folder
        self._written_at = 0.0
        self._written = 0
        self._step: Any = None
        self._operations: Any = None

    def on_step(self, detector: Detector) -> None:
        """Updates the record now and then."""
        now = time.monotonic()
        if self._written <= ALWAYS_WRITTEN_STEPS or now - self._written_at > WRITE_EVERY_SECONDS:
            self.update(detector)
            self._written_at = now
            self._written += 1

    def update(self, detector: Detector) -> None:
        """Writes the observation; the recorded step, which is large, only when it is new."""
        observation = detector.observation()
        step = observation.recording
        if step is not None and step is not self._step:
            self._replace(RECORDED_STEP, step.to_dict())
            self._step = step
        operations = observation.operations
        if operations is not None and operations is not self._operations:
            self._replace(OPERATIONS, operations.to_dict())
            self._operations = operations
        self.write(observation.to_dict())

    def write(self, document: dict[str, Any]) -> None:
        """Writes the record."""
        self._replace(RECORD, document)

    def _replace(self, name: str, document: dict[str, Any]) -> None:
        """Replaces the file atomically: readers see the old or the new one, never half of one."""
        new = self._folder / f".{name}.new"
        try:
            new.write_text(json.dumps(document))
            new.replace(self._folder / name)
        except OSError:
            return  # a full disk ends the report, not the script

"""Calibrates: times operations, copies and the host of the GPU here, and makes a profile of them.

Everything timed is written to a journal at once. A run that was ended goes on from there, and a case that ends the
worker costs only its few neighbours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from memorymark.calibration.plan import planned_cases
from memorymark.devices.machine import lacks_accelerator
from memorymark.errors import UsageError, WorkerError
from memorymark.events import OnEvent, StageStarted, ignore
from memorymark.messages import Message
from memorymark.profiles.profile import VERSION, Profile, profile_of
from memorymark.profiles.stored import install, not_writable, own_folder, write
from memorymark.worker.supervisor import AnyWorker, FreshWorkers, Workers

# How long a run takes with the start of a worker; operations get what is left of it.
SECONDS = 80.0
AT_ONCE, SAID_EVERY = 8, 5
# After so many workers that were lost, the run stops and keeps what it has.
MOST_LOST = 5
CALL_SECONDS = 120.0
# Fewer operations than this, in all of a plan, are no profile.
FEWEST = 20
Case = dict[str, Any]


def calibrate(
    device: str = "cuda",
    output: Path | None = None,
    *,
    seconds: float = SECONDS,
    on_event: OnEvent = ignore,
    workers: Workers | None = None,
) -> tuple[Profile, Path]:
    """Times the GPU here for about so many seconds at most; returns its profile and the file that it was written to.

    That is ``output``, or one in the user's folder of profiles, and the journal is beside it. If it holds what an
    earlier run of the same day and versions left, this one goes on from there.
    """
    if lacks_accelerator():
        raise UsageError(
            Message(
                "there is no GPU here to calibrate; run `memorymark calibrate` on the machine that has it, and use the "
                "file that it writes here with {profile}."
            ),
            code="no_device",
            field="device",
            given=device,
        )
    run = _Run(device, workers or FreshWorkers(), time.monotonic() + seconds, on_event)
    try:
        facts = {**run.begin(), "date": datetime.now(timezone.utc).date().isoformat()}
        journal = Journal.of(facts, own_folder() if output is None else output.parent)
        profile = run.profile(facts, journal)
    finally:
        run.close()
    file = install(profile) if output is None else write(profile, output)
    journal.close()
    return profile, file


@dataclass
class Journal:
    """A file with what was timed so far, one document a line; the first says of what."""

    file: Path
    timed: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    host: dict[str, Any] | None = None

    @classmethod
    def of(cls, facts: dict[str, str], folder: Path) -> Journal:
        """Returns the journal of a GPU, with what an earlier run of the same versions on the same day left."""
        journal = cls(folder / f".{facts['gpu_id']}.journal")
        with suppress(OSError, ValueError):
            first, *lines = journal.file.read_text(encoding="utf-8").splitlines()
            if json.loads(first) == facts:
                journal._take_back(lines)
                return journal
        try:
            folder.mkdir(parents=True, exist_ok=True)
            journal.file.write_text(json.dumps(facts), encoding="utf-8")
        except OSError as error:
            raise not_writable(folder, error) from None
        return cls(journal.file)

    def add(self, line: dict[str, Any]) -> None:
        """Keeps the host's part, or what was timed of a case."""
        self._take(line)
        try:
            with self.file.open("a", encoding="utf-8") as opened:
                opened.write(f"\n{json.dumps(line)}")
        except OSError as error:
            raise not_writable(self.file, error) from None

    def close(self) -> None:
        """Removes the file: everything is in a profile now."""
        self.file.unlink(missing_ok=True)

    def _take_back(self, lines: list[str]) -> None:
        for line in lines:
            with suppress(ValueError, LookupError, TypeError):  # a line may have been cut short
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        if "case" in line:
            self.timed[_name(line["case"])] = line["timed"]
        else:
            self.host = line


class _Run:
    """One calibration, in as many workers as it takes."""

    def __init__(self, device: str, workers: Workers, until: float, on_event: OnEvent) -> None:
        self._device, self._workers, self._until, self._on_event = device, workers, until, on_event
        self._worker: AnyWorker | None = None
        self._lost = 0

    def begin(self) -> dict[str, str]:
        """Starts a worker; returns what it calibrates."""
        self._say("starting a worker")
        return self._begin()

    def profile(self, facts: dict[str, str], journal: Journal) -> Profile:
        """Times what the journal lacks, until the time is up."""
        if journal.host is None:
            self._say(f"timing the host of the {facts['gpu_name']}")
            journal.add(self._host())
        for turn, (done, several, waiting) in enumerate(self._chunks(journal)):
            if turn % SAID_EVERY == 0:
                self._say(f"timed {done} of {done + waiting} operations")
            for case, found in zip(several, self._timed(several), strict=False):
                journal.add({"case": case, "timed": found})
        operations = [found for found in journal.timed.values() if found is not None]
        if len(operations) < FEWEST:
            raise WorkerError(f"only {len(operations)} operations could be timed, too few for a profile; run it again.")
        failed = len(journal.timed) - len(operations)
        document = {**facts, **(journal.host or {}), "operations": operations, "failed": failed}
        return profile_of({"kind": Profile.kind, "version": VERSION, **document})

    def close(self) -> None:
        if self._worker is not None:
            self._workers.give_back(self._worker)
            self._worker = None

    def _chunks(self, journal: Journal) -> Iterator[tuple[int, list[Case], int]]:
        """Yields the cases that are left, a few at a time, with how many are done and how many wait."""
        left = [case for case in planned_cases() if _name(case) not in journal.timed]
        while left and time.monotonic() < self._until and self._lost < MOST_LOST:
            yield len(journal.timed), left[:AT_ONCE], len(left)
            left = left[AT_ONCE:]

    def _host(self) -> dict[str, Any]:
        """Returns the host's part; nothing if it ends the worker."""
        try:
            return self._call("calibrate_host")
        except WorkerError:
            self._drop()
            return {"host": None}

    def _timed(self, several: list[Case]) -> list[dict[str, Any] | None]:
        """Times a few cases; if they end the worker, none of them can be timed."""
        try:
            answer = self._call("calibrate_cases", cases=several, seconds=max(self._until - time.monotonic(), 1.0))
        except WorkerError:
            self._drop()
            return [None] * len(several)
        found: list[dict[str, Any] | None] = answer["timed"]
        return found

    def _begin(self) -> dict[str, str]:
        self._worker = self._workers.take()
        return self._worker.call("calibrate", {"device": self._device}, CALL_SECONDS)

    def _call(self, name: str, **arguments: Any) -> dict[str, Any]:
        if self._worker is None:
            self._begin()
        assert self._worker is not None  # noqa: S101 - _begin has just set it
        return self._worker.call(name, arguments, CALL_SECONDS)

    def _drop(self) -> None:
        self._lost += 1
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _say(self, message: str) -> None:
        self._on_event(StageStarted("start", message))


def _name(case: Case) -> str:
    return json.dumps(case, sort_keys=True)

"""The service under attack: what is promised to hold whatever strangers and accidents do to it.

python benchmarks/drills.py [--minutes=5] [--seconds=15] [--only=kills,disk] [--out=FILE]

Each drill starts `memorymark serve` as a user would, on a free port of this machine and with a history of its own,
breaks it in one way, and ends it. The exit code is 1 if a promise was broken. Linux only: it looks into /proc.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from cases import flags, table
from drilling.bombs import large_listings, memory_bombs
from drilling.crowds import busy_connections, foreign_lock, half_requests, hang_ups
from drilling.disk import disk_full
from drilling.judge import HEADER, Outcome, Promise
from drilling.kills import random_kills
from drilling.nonsense import nonsense
from drilling.server import DidNotStartError

# What a worker may take in the drill that tries to take more.
WORKER_GIB = "2"
PACKAGES = ("memorymark", "torch", "transformers", "flask", "sqlalchemy")


def drills() -> dict[str, Callable[[], Outcome]]:
    """Every drill by the name that --only takes."""
    minutes, seconds = float(flags().get("minutes", 5)), float(flags().get("seconds", 15))
    return {
        "nonsense": nonsense,
        "bombs": lambda: memory_bombs("--worker-memory-gib", WORKER_GIB),
        "listings": large_listings,
        "hangups": hang_ups,
        "halves": half_requests,
        "busy": lambda: busy_connections(seconds),
        "lock": foreign_lock,
        "disk": disk_full,
        "kills": lambda: random_kills(minutes),
    }


def where() -> str:
    """The machine, the versions and the day."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} processors, {memory_gib:.0f} GiB, Linux {platform.release()}"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = f"load average {os.getloadavg()[1]:.1f}"
    return f"{machine}, {load}; {versions}, Python {platform.python_version()}; {time.strftime('%Y-%m-%d')}"


def main() -> int:
    """Runs the drills one after the other, prints what they showed, and keeps it where --out says."""
    if not Path("/proc/self/status").exists():
        raise SystemExit("the drills look at processes in /proc, which is not here; run them on Linux.")
    chosen = flags().get("only", ",".join(drills())).split(",")
    unknown = [name for name in chosen if name not in drills()]
    if unknown:
        raise SystemExit(f"there is no drill {unknown[0]!r}; there are {', '.join(drills())}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before the end."))  # and what was started ends too
    outcomes: list[Outcome] = []
    try:
        for name in chosen:
            began = time.monotonic()
            try:
                outcomes.append(drills()[name]())
            except DidNotStartError as error:
                said = [Promise("the server did not start", False)]
                outcomes.append(Outcome(name, "", promises=said, notes=[f"The server's last words: {error}"]))
            print(f"{name}: {outcomes[-1].verdict()} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    finally:  # what was seen before somebody ended it is worth seeing too
        report(outcomes)
    return int(any(outcome.verdict() != "kept" for outcome in outcomes))


def report(outcomes: list[Outcome]) -> None:
    """Prints the table and the notes below it, and keeps them where --out says."""
    notes = [f"- {outcome.drill}: {note}" for outcome in outcomes for note in outcome.notes]
    command = " ".join(["python", "benchmarks/drills.py", *sys.argv[1:]])
    text = f"{where()}; `{command}`\n\n{table(HEADER, [outcome.row() for outcome in outcomes])}\n\n" + "\n".join(notes)
    print(text)
    if "out" in flags():
        Path(flags()["out"]).write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""How long predicted answers take where nothing was traced before: wall-clock and CPU time. Needs no GPU.

python benchmarks/answers.py [--only=advise-24,all-gpus] [--out=FOLDER]

Each question runs in a fresh process on all cores, with an empty folder for traces. Others' work on the same machine
makes both times longer; the last column says how much of it there was.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cases import flags, machine, save, table

ADVISE = ("advise", "llama-3.1-8b", "--precision", "bf16", "--gpu")
QUESTIONS = {
    "advise-24": (*ADVISE, "rtx4090"),
    "advise-48": (*ADVISE, "l40s"),
    "advise-80": (*ADVISE, "h100"),
    "all-gpus": ("analyze", "bert", "--all-gpus"),
    "one-gpu": ("analyze", "bert", "--gpu", "a10"),
}


def timed(question: tuple[str, ...]) -> tuple[float, float]:
    """Asks in a fresh process; returns the seconds, and those of all processors."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'history.db'}"
        environment = {**os.environ, "MEMORYMARK_CACHE": folder, "MEMORYMARK_DATABASE": database}
        command = [sys.executable, "-m", "memorymark", *question, "--json"]
        start, before = time.perf_counter(), os.times()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        seconds, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu


def main() -> None:
    wanted = flags()["only"].split(",") if "only" in flags() else QUESTIONS
    rows: list[list[object]] = []
    for name in wanted:
        load, (seconds, cpu) = os.getloadavg()[0], timed(QUESTIONS[name])
        rows.append([f"`memorymark {' '.join(QUESTIONS[name])}`", f"{seconds:.0f}", f"{cpu:.0f}", f"{load:.1f}"])
        print(*rows[-1], flush=True)
    save("answers", table(["question", "seconds", "CPU seconds", "load before"], rows))
    print(f"{os.cpu_count()} cores, {machine()}")


if __name__ == "__main__":
    main()

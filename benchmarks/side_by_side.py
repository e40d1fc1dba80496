"""Runs jobs on one GPU side by side, each in a process of its own with its allocator capped, as many as have room.

Memory does not depend on what else runs; times do, so whoever takes times gives each job the whole GPU.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")

GPU_GIB = 134.0
CONTEXT_GIB = 1.0
# A job that takes longer is one that hangs; its stacks say where.
LONGEST_SECONDS = 60


@dataclass(frozen=True)
class Job(Generic[T]):
    """A case, its name in what is printed, and the GiB that its allocator may take."""

    name: str
    case: T
    gib: float


def run_all(
    run: Callable[[T], dict[str, Any]],
    jobs: Sequence[Job[T]],
    *,
    seconds: float,
    at_once: int = 6,
    gib: float = GPU_GIB,
) -> Iterator[tuple[Job[T], dict[str, Any]]]:
    """Yields each job with its result as it ends, or with an ``error``; begins none after so many seconds."""
    # Asked through the driver's library, torch leaves CUDA alone in this process, and a fork stays usable.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification  # noqa: F401

    context = get_context("fork")
    waiting = sorted(jobs, key=lambda job: -job.gib)
    running: dict[Any, tuple[Job[T], Any, float]] = {}
    deadline = time.monotonic() + seconds
    while waiting or running:
        for job in list(waiting):
            used = sum(other.gib + CONTEXT_GIB for other, _, _ in running.values())
            room = len(running) < at_once and used + job.gib + CONTEXT_GIB <= gib
            if room and time.monotonic() < deadline:
                waiting.remove(job)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send, args=(sender, run, job.case))
                process.start()
                sender.close()
                running[receiver] = (job, process, time.monotonic())
        if not running:
            break
        for receiver in wait(list(running), timeout=5):
            job, process, started = running.pop(receiver)
            try:
                result = receiver.recv()
            except EOFError:
                result = {"error": f"died with exit code {process.exitcode}"}
            process.join()
            print(job.name, f"{time.monotonic() - started:.1f} s", result.get("error", ""), flush=True)
            yield job, result
        if time.monotonic() > deadline + LONGEST_SECONDS / 2:
            for job, process, _ in running.values():
                print("stopped", job.name, flush=True)
                process.kill()
            break
    for job in waiting:
        print("no time for", job.name, flush=True)


def _send(sender: Connection, run: Callable[[T], dict[str, Any]], case: T) -> None:
    faulthandler.dump_traceback_later(LONGEST_SECONDS)
    try:
        sender.send(run(case))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})

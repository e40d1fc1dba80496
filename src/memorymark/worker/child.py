"""The child process that holds the probe; ``memorymark.worker.supervisor`` is the parent's end.

Commands arrive as JSON lines on standard input; answers leave as JSON lines on the original standard output.
Anything a model prints goes to standard error. The worker ends when its parent does.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

from memorymark.models.build_guard import guard_every_thread
from memorymark.worker.calls import Worker
from memorymark.worker.faults import told


def main() -> None:
    """Answers commands until standard input ends."""
    answers = _claim_stdout()
    guard_every_thread()
    worker = Worker()
    for command in _commands():
        answers.write(json.dumps(answer(worker, command["call"], command["arguments"])) + "\n")
        answers.flush()


def answer(worker: Worker, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns a worker's answer to a call: the result, or the error."""
    try:
        return {"result": getattr(worker, call)(**arguments)}
    except Exception as error:
        return told(error, worker.suspect)


def _claim_stdout() -> IO[str]:
    """Reserves standard output for the answers; from here on, prints go to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _commands() -> Iterator[dict[str, Any]]:
    """Yields commands as they arrive. A thread reads them, so that the parent's death ends even a busy worker."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(lines.get())

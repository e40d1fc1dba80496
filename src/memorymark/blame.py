"""What code of the caller's raises is told as theirs: which argument it is, what it said, and where."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memorymark.errors import MemoryMarkError, UsageError

LONGEST_SAID = 300
# What each argument is called with, for whoever wrote it for something else.
CALLED_WITH = {
    "build=": "with nothing",
    "batch=": "with a number of samples, and a device if it takes two arguments, and makes one batch of that many, "
    "which no data loader and no collate function does",
    "loss=": "with the module and what batch= gives",
    "optimizer=": "with the module",
    "the module": "with what batch= gives as its keyword arguments, unless there is a loss=",
}


@contextmanager
def blaming(argument: str) -> Iterator[None]:
    """Remembers on an exception that it came out of what was given as ``argument``."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, MemoryMarkError) and not hasattr(error, "memorymark_argument"):
            with suppress(AttributeError, TypeError):
                error.memorymark_argument = argument  # type: ignore[attr-defined]
        raise


@contextmanager
def told_as_theirs() -> Iterator[None]:
    """Turns an exception that came out of the caller's code into a sentence; a fault of ours stays as it is."""
    try:
        yield
    except Exception as error:
        argument: str | None = getattr(error, "memorymark_argument", None)
        if argument is None:
            raise
        raise UsageError(_sentence(argument, error)) from error


def said_by(error: BaseException) -> str:
    """What an exception says, on one line: ``ZeroDivisionError: division by zero``."""
    said = " ".join(str(error).split())[:LONGEST_SAID].rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def place_of(error: BaseException) -> str:
    """Where in somebody's own code it happened, if it did there: `` (nets.py, line 12)``."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    ours = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen", *installed))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _sentence(argument: str, error: Exception) -> str:
    """A wrong call is explained; what went wrong inside is theirs to know."""
    raised = f"{argument} raised {said_by(error)}{place_of(error)}"
    if isinstance(error, (TypeError, AttributeError, LookupError)) and argument in CALLED_WITH:
        return f"{raised}; it is called {CALLED_WITH[argument]}."
    return f"{raised}; mend it and ask again."

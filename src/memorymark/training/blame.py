"""Attributes exceptions of the caller's code to the argument they came from, with their message and place."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memorymark.errors import MemoryMarkError, UsageError

LONGEST_SAID = 300
# How each argument is called, for the error message of a wrong call.
CALLED_WITH = {
    "build=": "with nothing",
    "batch=": "with a number of samples, and a device if it takes two arguments, and must return one batch of that "
    "size, unlike a data loader or a collate function",
    "loss=": "with the module and what batch= returns",
    "optimizer=": "with the module",
    "step=": "with the module, what batch= returns and the optimizer, or a list if there are several",
    "between=": "with the module, what batch= returns and the optimizer, or a list if there are several",
    "the module": "with what batch= returns as its keyword arguments, unless there is a loss=",
}


@contextmanager
def blaming(argument: str) -> Iterator[None]:
    """Notes on an exception that it came from the code given as ``argument``."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, MemoryMarkError) and not hasattr(error, "memorymark_argument"):
            with suppress(AttributeError, TypeError):
                error.memorymark_argument = argument  # type: ignore[attr-defined]
        raise


@contextmanager
def not_taken(name: str) -> Iterator[None]:
    """Turns what a model raises at the batches that are made for it here into a sentence."""
    try:
        yield
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        NameError,
        TypeError,
        ValueError,
    ) as error:
        raise UsageError(
            f"{name} does not take the batches that are made for it here, or its config leaves something open",
            hint="compare it with a config.json that works, or pass a file.py:function that makes both",
            code="not_applicable",
            field="model",
            detail=said_by(error),
        ) from error


@contextmanager
def told_as_theirs() -> Iterator[None]:
    """Turns an exception of the caller's code into a one-sentence error; exceptions of our own code pass unchanged."""
    try:
        yield
    except Exception as error:
        argument: str | None = getattr(error, "memorymark_argument", None)
        if argument is None:
            raise
        raise UsageError(_sentence(argument, error), code="bad_workload") from error


def said_by(error: BaseException) -> str:
    """Returns an exception's type and message on one line: ``ZeroDivisionError: division by zero``."""
    said = " ".join(str(error).split())[:LONGEST_SAID].rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def place_of(error: BaseException) -> str:
    """Returns where in the caller's code it happened, if it did there: `` (nets.py, line 12)``."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    ours = str(Path(__file__).parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen", *installed))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _sentence(argument: str, error: Exception) -> str:
    """Returns the sentence for an exception; explains the call if the arguments were wrong."""
    raised = f"{argument} raised {said_by(error)}{place_of(error)}"
    if isinstance(error, (TypeError, AttributeError, LookupError)) and argument in CALLED_WITH:
        return f"{raised}; it is called {CALLED_WITH[argument]}."
    return f"{raised}; fix it and try again."

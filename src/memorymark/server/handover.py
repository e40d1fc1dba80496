"""Lets a view hand over work that writes or waits for jobs, so that the threads that answer calls never wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memorymark.errors import MemoryMarkError

if TYPE_CHECKING:
    from memorymark.server.event_stream import EventStream
    from memorymark.server.jobs import Jobs

T = TypeVar("T")
# The keys of a call's environ for its handover and its start time.
KEY = "memorymark.handover"
BEGAN = "memorymark.began"


class LeftError(Exception):
    """Raised in a view that hands over work to the front, which calls the view again when the work is done."""


@dataclass(frozen=True)
class DeferredWork(Generic[T]):
    """Work to do before a view can answer; ``job_of`` returns the job to wait for, for up to ``wait_seconds``.

    The number of waiting calls is limited, except for those that wait ``briefly``.
    """

    run: Callable[[], T]
    job_of: Callable[[T], str] | None = None
    wait_seconds: float = 0.0
    briefly: bool = False


class Handover:
    """Connects the front and the view of one call, which is called again after its work is done."""

    def __init__(self) -> None:
        self.work: DeferredWork[Any] | None = None
        self.stream: EventStream | None = None
        self._outcome: list[Any] = []
        self._error: Exception | None = None

    def leave(self, work: DeferredWork[T]) -> T:
        """Returns the outcome of the work if it is done; else raises, and the view is called again later."""
        if self._error is not None:
            raise self._error
        if self._outcome:
            result: T = self._outcome[0]
            return result
        self.work = work
        raise LeftError

    @property
    def is_done(self) -> bool:
        """Whether the work is done, and the view is being called again."""
        return bool(self._outcome) or self._error is not None

    def succeed(self, outcome: Any) -> None:
        """Stores the outcome of the work."""
        self._outcome = [outcome]

    def fail(self, error: Exception) -> None:
        """Stores the error of the work."""
        self._error = error

    def require_room(self) -> None:
        """Raises if the front rejected the call before any view was called."""
        if self.work is None and isinstance(self._error, MemoryMarkError):
            raise self._error


class DoneAtOnce(Handover):
    """For WSGI servers without the front: the thread that answers the call does the work, and waits."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs

    def leave(self, work: DeferredWork[T]) -> T:
        """Does the work and returns its outcome."""
        outcome = work.run()
        if work.job_of is not None:
            self._jobs.wait(work.job_of(outcome), work.wait_seconds)
        return outcome

"""What a view leaves to others, so that the threads that answer calls never wait: writing, and the ends of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memorymark.errors import MemoryMarkError

if TYPE_CHECKING:
    from memorymark.server.event_stream import EventStream
    from memorymark.server.jobs import Jobs

T = TypeVar("T")
# Where the environ of a call keeps its handover, and when the call came.
KEY = "memorymark.handover"
BEGAN = "memorymark.began"


class LeftError(Exception):
    """Raised in a view: it has left work to the front, which calls the view again when the work is done."""


@dataclass(frozen=True)
class Work(Generic[T]):
    """What is to be done before a view can answer; ``job_of`` tells which job it then waits for, and how long.

    Only so many may wait at a time, but for those who wait ``briefly``.
    """

    run: Callable[[], T]
    job_of: Callable[[T], str] | None = None
    wait_seconds: float = 0.0
    briefly: bool = False


class Handover:
    """Between the front and the view of one call, which is called once more after it has left work."""

    def __init__(self) -> None:
        self.work: Work[Any] | None = None
        self.stream: EventStream | None = None
        self._outcome: list[Any] = []
        self._error: Exception | None = None

    def leave(self, work: Work[T]) -> T:
        """What came of the work, once it is done; until then nothing of the view after this is run."""
        if self._error is not None:
            raise self._error
        if self._outcome:
            result: T = self._outcome[0]
            return result
        self.work = work
        raise LeftError

    @property
    def is_done(self) -> bool:
        """Whether the view has left work before, and is called with what came of it."""
        return bool(self._outcome) or self._error is not None

    def succeed(self, outcome: Any) -> None:
        """The work is done."""
        self._outcome = [outcome]

    def fail(self, error: Exception) -> None:
        """The work could not be done."""
        self._error = error

    def require_room(self) -> None:
        """Raises what the front refuses the call with, before any view is called."""
        if self.work is None and isinstance(self._error, MemoryMarkError):
            raise self._error


class DoneAtOnce(Handover):
    """Where no front is, as under another WSGI server: the thread that answers the call does the work, and waits."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs

    def leave(self, work: Work[T]) -> T:
        """What came of the work."""
        outcome = work.run()
        if work.job_of is not None:
            self._jobs.wait(work.job_of(outcome), work.wait_seconds)
        return outcome

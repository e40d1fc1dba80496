"""Answers HTTP calls, from an earlier answer or from a job that the call waits for."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Response, request
from werkzeug.exceptions import NotFound

from memorymark.errors import StoppedError
from memorymark.history import Job
from memorymark.history.failures import error_of
from memorymark.server import bodies
from memorymark.server.answers import STATUS_BY_KIND, failure, success
from memorymark.server.handover import KEY, DeferredWork, DoneAtOnce, Handover
from memorymark.server.jobs import STOP_SECONDS, Jobs, Submitted
from memorymark.server.metrics import Metrics

T = TypeVar("T")


class Asking:
    """Queues callers' questions; a caller waits for an answer no longer than ``longest_wait_seconds``."""

    def __init__(self, jobs: Jobs, metrics: Metrics, *, longest_wait_seconds: float) -> None:
        self._jobs, self._metrics, self._longest_wait_seconds = jobs, metrics, longest_wait_seconds

    def submitted(self, body: bodies.QuestionBody, wait_seconds: float | None = None, **more: Any) -> Submitted:
        """Returns the job for a question, new or already answered; waits up to ``wait_seconds`` for its end, if given.

        ``more`` are options that the address implies.
        """
        jobs = self._jobs
        question = body.question(allow_code=jobs.allow_code, **more)
        handover = request.environ.get(KEY)
        known = None if body.fresh or (handover is not None and handover.is_done) else jobs.known(question)
        if known is not None:
            self._metrics.reused.inc()
            return Submitted(known, is_new=False)

        def submit() -> Submitted:
            return jobs.submit(question, fresh=body.fresh, time_limit_seconds=body.time_limit)

        if wait_seconds is None:
            asked = self._left(DeferredWork(submit))
        else:
            asked = self._left(DeferredWork(submit, job_of=lambda made: made.job.id, wait_seconds=wait_seconds))
        if not asked.is_new:  # somebody else's answer came meanwhile
            self._metrics.reused.inc()
        return asked

    def waited_for(self, body: bodies.QuestionBody, **more: Any) -> Response:
        """Waits for the answer to a question and returns it."""
        asked = self.submitted(body, self._longest_wait_seconds, **more).job
        job = asked if asked.is_finished else self._jobs.get(asked.id) or asked
        if self._jobs.is_stopping and not job.is_finished:
            raise StoppedError(f"the service is shutting down; job {job.id} continues after a restart.")
        if not job.is_finished:
            sentence = "the answer takes longer than this call may wait; get it later from GET /jobs/<job_id>."
            return failure(504, StoppedError(sentence, code="time_limit"), job_id=job.id)
        error = error_of(job) if job.result is None else None
        if error is not None:
            return failure(STATUS_BY_KIND[job.error_kind], error, job_id=job.id, kind=job.error_kind)
        return success("answer", job_id=job.id, origin=job.origin, data=job.result)

    def existing(self, job_id: str) -> Job:
        """Returns the job with this id; raises 404 if there is none."""
        job = self._jobs.get(job_id) if job_id.isalnum() and job_id.isascii() else None
        if job is None:
            raise NotFound("there is no job with this id; GET /jobs lists them.")
        return job

    def cancelled(self, job: Job) -> Job:
        """Cancels a job and returns it."""
        if not job.is_finished:
            job_of = lambda _: job.id  # noqa: E731
            self._left(DeferredWork(lambda: self._jobs.cancel(job.id), job_of, wait_seconds=STOP_SECONDS, briefly=True))
        return self._jobs.get(job.id) or job

    def _left(self, work: DeferredWork[T]) -> T:
        """Hands over work that writes or waits, and returns its outcome; the front runs it in other threads."""
        handover: Handover = request.environ.get(KEY) or DoneAtOnce(self._jobs)
        return handover.leave(work)

"""Plays a recorded job to whoever asks for it: the same events, at the recorded pace, without workers."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from memorymark.errors import UsageError
from memorymark.history import Job, Store, new_job
from memorymark.history.recording import Recording
from memorymark.messages import Message
from memorymark.question.flat import OPTIONS, over_http
from memorymark.question.question import Question
from memorymark.results.result import Result
from memorymark.server.bodies import JobBody
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane, pass_on
from memorymark.server.live_job import LiveJob, Place
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import LOOK_UP_SECONDS, Lease, WarmWorkers
from memorymark.suggestions import Proposal
from memorymark.worker.supervisor import AnyWorker


class ReplayedJobs(Jobs):
    """Takes only the question of a recording, and plays it again each time."""

    def __init__(self, store: Store, recording: Recording, settings: Settings) -> None:
        lanes = [ReplayLane(recording, settings.replay_speed)]
        super().__init__(store, lanes, queue_size=settings.queue_size, max_seconds=settings.job_seconds)
        self.recording = recording.facts
        self._recorded = recording
        # As a caller sends it: the name of a folder, for example, means nothing here.
        self._question = JobBody.model_validate(self.recording.options).question()
        self._key = new_job(self._question, "recording").key

    def job_for(self, question: Question, **fields: Any) -> Job:
        """Makes a job that plays the recording; raises if another question is asked."""
        job = new_job(self._where_recorded(question), "recording", **{**fields, "fresh": True})
        if job.key != self._key:
            raise self._refusal()
        return replace(job, machine=self._recorded.machine, versions=self._recorded.versions)

    def _where_recorded(self, question: Question) -> Question:
        """Returns the question with the target of the recording, unless it names another."""
        request, there = question.request, self._question.request.target
        if question.compares_gpus or not request.target.is_open:
            return question
        target = replace(request.target, device=there.device, gpu=there.gpu)
        return replace(question, request=replace(request, target=target))

    def _refusal(self) -> UsageError:
        others = dict.fromkeys(one.http_name for one in OPTIONS.values())  # back to their defaults
        return UsageError(
            Message(
                "this is a recording of one question about {model}, and yours differs; ask that one, or start the "
                "service without {serve.replay}.",
                model=self._question.request.entry.name,
            ),
            code="not_applicable",
            proposals=[Proposal("Ask the recorded question", {**others, **over_http(self._question)})],
        )


class ReplayLane(Lane):
    """Answers every job by playing the recording, ``speed`` times as fast as it happened."""

    def __init__(self, recording: Recording, speed: float) -> None:
        super().__init__("replay", _NoWorkers(), "recording")
        self._recording, self._speed = recording, speed

    def accepts(self, place: Place) -> bool:  # noqa: ARG002 - wherever it was recorded
        """Whether this lane answers questions for a place: for any, since only one question is taken."""
        return True

    def answer(self, job: LiveJob) -> Result:
        """Plays the recording to its end; raises the error, if it ends with one."""
        began = time.monotonic()
        for moment in self._recording.moments:
            _wait_until(began + moment.seconds / self._speed, job.lease)
            pass_on(job, moment.happened)
        _wait_until(began + self._recording.seconds / self._speed, job.lease)
        return self._recording.outcome()


class _NoWorkers(WarmWorkers):
    """Takes the place of workers where nothing is computed."""

    def __init__(self) -> None:
        super().__init__(reuse=False)

    def prepare(self) -> Future[AnyWorker]:
        """Starts nothing: no job of this lane takes a worker."""
        return Future()


def _wait_until(moment: float, lease: Lease) -> None:
    """Waits for a moment; returns early if the job is stopped."""
    while lease.stopped is None and (left := moment - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_UP_SECONDS))

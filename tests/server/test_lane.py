"""What a lane makes of a job that is stopped while it is answered."""

from contextlib import closing

import pytest

import memorymark as mm
from memorymark import answer as engine
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.server.lane import CANCELLED, TIME_LIMIT, Lane
from memorymark.server.live_job import LiveJob
from memorymark.server.warm_workers import WarmWorkers
from support.advices import advice


class OneJob:
    """A line with a single job in it."""

    def __init__(self, job):
        self.waiting, self.finished = [job], []

    def take(self, _lane):
        return self.waiting.pop() if self.waiting else None

    def finish(self, job):
        self.finished.append(job)

    def answered(self, _job):
        return None


@pytest.mark.parametrize(
    ("reason", "ends"),
    [(None, ("done", None)), (CANCELLED, ("cancelled", None)), (TIME_LIMIT, ("failed", "time_limit"))],
)
def test_what_is_left_of_advice_that_was_stopped_is_no_answer(tmp_path, monkeypatch, reason, ends):
    """The end of a worker costs advice an option and no more, so it comes even after a stop."""

    def answer(*_, **__):
        if reason is not None:
            live.lease.stop(reason)
        return advice()

    monkeypatch.setattr(engine, "answer", answer)
    question = Question(request=mm.Request(model="bert", target=mm.Target(gpu="a10")), advise=True)
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        live = LiveJob(new_job(question, "http"), store, max_seconds=60)
        live.add()
        lane = Lane("prediction-0", WarmWorkers(reuse=True))
        lane.line = line = OneJob(live)
        try:
            lane.run()
        finally:
            lane.workers.stop()

        assert line.finished == [live]
        assert (live.job.state, live.job.error_kind) == ends
        assert (live.job.result is None) == (reason is not None)

"""Whoever listens hears everything, whatever happens between two looks."""

import threading

from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from support.processes import PATIENCE_SECONDS

QUESTION = Question(request=Request(model="bert", target=Target(gpu="a10")))
RESULT = {"kind": "analysis", "max_batch_size": 266}


def answer(jobs):
    """Does what a lane does with the next job, but at once."""
    lane = jobs.lanes[0]
    live = jobs.take(lane)
    live.tell("state", {"state": "running"}, state="running", started_at=1.0)
    live.tell("result", {}, state="done", result=RESULT, finished_at=2.0)
    lane.running = None
    jobs.finish(live)


def test_a_watcher_who_is_slow_still_hears_how_it_ends(idle_jobs):
    jobs = idle_jobs()
    job = jobs.submit(QUESTION).job
    watched = jobs.watch(job, 0, 0.01)
    heard = next(watched)

    answer(jobs)  # while the first event is still on its way to the watcher
    heard += [event for happened in watched for event in happened]

    assert [event.event for event in heard] == ["state", "state", "result"]
    assert heard[-1].data == RESULT


def test_a_watcher_who_is_slow_still_hears_that_it_was_cancelled(idle_jobs):
    jobs = idle_jobs()
    job = jobs.submit(QUESTION).job
    watched = jobs.watch(job, 0, 0.01)
    heard = next(watched)

    jobs.cancel(job.id)
    heard += [event for happened in watched for event in happened]

    assert [event.event for event in heard] == ["state", "error"]


def test_who_looked_at_a_job_before_its_end_gets_the_result_with_its_last_event(idle_jobs):
    jobs = idle_jobs()
    looked_at = jobs.submit(QUESTION).job

    answer(jobs)

    assert looked_at.result is None
    assert jobs.events(looked_at)[-1].data == RESULT
    assert [event.data for happened in jobs.watch(looked_at, 2, 0.01) for event in happened] == [RESULT]


def test_a_watcher_who_comes_after_the_end_hears_everything(idle_jobs):
    jobs = idle_jobs()
    job = jobs.submit(QUESTION).job
    answer(jobs)

    heard = [event for happened in jobs.watch(jobs.get(job.id), 0, 0.01) for event in happened]

    assert [event.number for event in heard] == [1, 2, 3]
    assert heard[-1].data == RESULT


def test_what_was_told_is_read_without_waiting_for_who_writes(idle_jobs, monkeypatch):
    jobs, heard = idle_jobs(), []
    live = jobs.live(jobs.submit(QUESTION).job.id)
    is_writing, go_on = threading.Event(), threading.Event()

    def slow(*_):
        is_writing.set()
        assert go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(jobs.store, "save", slow)
    with live.listening(lambda: heard.append(live.told(1))):
        teller = threading.Thread(target=live.tell, args=["error", {}], kwargs={"state": "failed"})
        teller.start()
        assert is_writing.wait(PATIENCE_SECONDS)
        events, job = live.told()
        assert ([event.event for event in events], job.state, heard) == (["state"], "queued", [])
        go_on.set()
        teller.join()

    [(events, job)] = heard
    assert ([event.event for event in events], job.state) == (["error"], "failed")
    live.wake()
    assert len(heard) == 1

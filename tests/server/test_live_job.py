"""Whoever listens hears everything, whatever happens between two looks."""

import sqlite3
import threading
from contextlib import closing

from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server.live_job import LiveJob
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


def test_a_watcher_who_reads_slowly_gets_the_last_event_too(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        live = LiveJob(new_job(QUESTION, "http"), store, max_seconds=1)
        live.add()
        stream = live.watch(0, heartbeat_seconds=0.1)
        heard = [event.event for event in next(stream)]

        live.tell("state", {"state": "running"}, state="running")
        live.tell("error", {}, state="failed", error="it failed.")  # while what came before is still being sent
        heard += [event.event for happened in stream for event in happened]

    assert heard == ["state", "state", "error"]


def test_nobody_hears_of_an_answer_before_it_is_written(tmp_path):
    database = tmp_path / "history.db"
    with closing(Store(f"sqlite:///{database}")) as store:
        live = LiveJob(new_job(QUESTION, "http"), store, max_seconds=1)
        live.add()
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody else can write now
            teller = threading.Thread(target=live.tell, args=["result", {}], kwargs={"state": "done", "result": {}})
            teller.start()
            teller.join(0.5)
            state_meanwhile = live.job.state
            other.execute("ROLLBACK")
        teller.join(PATIENCE_SECONDS)

        assert state_meanwhile == "queued"
        assert (live.job.state, store.job(live.job.id).state) == ("done", "done")

"""Why a job has no result, as the history keeps it and whoever looks reads it."""

from contextlib import closing
from dataclasses import replace

import pytest

from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    HistoryError,
    ServerError,
    StoppedError,
    UsageError,
    WorkerError,
)
from memorymark.history import JobEvent, ListedJob, Store, views
from memorymark.history.failures import error_of, kept
from memorymark.messages import Message
from memorymark.suggestions import Proposal, Suggestion
from memorymark.units import GIB
from support.kept_jobs import asked, failed

REFUSED = UsageError(
    Message("Net has no {kind} checkpointing", kind="{gradient}"),
    hint=Message("drop {gradient_checkpointing}"),
    code="not_applicable",
    field="gradient_checkpointing",
    given=True,
    proposals=[Proposal("without", {"gradient_checkpointing": False})],
)
FITS = Suggestion(change={"lora": 16}, recipe="LoRA", max_batch_size=5, device_bytes=GIB, total_bytes=2 * GIB)
SAID = {
    "command_line": "Net has no {gradient} checkpointing; drop --gradient-checkpointing.",
    "python": "Net has no {gradient} checkpointing; drop gradient_checkpointing=.",
    "http": "Net has no {gradient} checkpointing; drop gradient_checkpointing.",
}


@pytest.fixture
def store(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path}/history.db")) as store:
        yield store


@pytest.mark.parametrize("error", [REFUSED, DoesNotFitError("no", 7, hint="take it", suggestions=[FITS])])
@pytest.mark.parametrize("origin", ["http", "cli"])
def test_an_error_keeps_its_data_in_the_history(store, error, origin):
    store.add(asked(origin, state="failed", **kept(error, "http")))
    [listed] = store.jobs()
    job = store.job(listed.id)

    for read in (error_of(job), error_of(listed)):
        assert type(read) is type(error)
        assert read.to_dict() == error.to_dict()


@pytest.mark.parametrize("dialect", SAID)
def test_whoever_looks_reads_it_in_their_terms(store, dialect):
    store.add(asked(state="failed", **kept(REFUSED, "command_line")))
    [listed] = store.jobs()
    event = JobEvent(1, "error", {"state": "failed", **kept(REFUSED, "http")}, 1.0)

    assert views.summary(listed, dialect)["error"] == SAID[dialect]
    assert views.whole(store.job(listed.id), None, dialect)["problem"]["error"] == SAID[dialect]
    assert views.happened(event, dialect)["data"]["error"] == SAID[dialect]


def test_a_job_of_an_older_version_still_has_its_sentence(store):
    older = failed(suggestions=[FITS.to_dict()])
    store.add(older)
    job = store.job(older.id)
    event = JobEvent(1, "error", {"state": "failed", "error": older.error, "error_kind": older.error_kind}, 1.0)

    assert job.problem is None
    assert views.summary(ListedJob.of(job), "http")["error"] == older.error
    assert views.happened(event, "http")["data"]["error"] == older.error
    assert error_of(job).suggestions == [FITS]


def test_a_document_that_is_damaged_leaves_the_sentence(store):
    older = failed(problem={"code": "usage"})
    store.add(older)

    assert error_of(store.job(older.id)).said_in("http") == older.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (REFUSED, "usage"),
        (DoesNotFitError("no"), "does_not_fit"),
        (CannotPredictError("no."), "cannot_predict"),
        (WorkerError("no."), "worker"),
        (StoppedError("no.", code="time_limit"), "time_limit"),
        (StoppedError("no.", code="interrupted"), "stopped"),
        (StoppedError("no.", code="cancelled"), None),
        (ServerError("no.", code="internal"), "internal"),
        (HistoryError("no."), "internal"),
    ],
)
def test_every_error_is_of_a_sort(error, kind):
    assert kept(error, "http")["error_kind"] == kind


def test_what_a_library_said_is_not_kept(store):
    store.add(asked(state="failed", **kept(WorkerError("it crashed.", detail="secret"), "http")))
    [listed] = store.jobs()

    assert "secret" not in str(store.job(listed.id))


def test_an_error_about_what_no_database_takes_is_kept(store):
    error = UsageError(Message("unknown {name}.", name="a\0b\ud800"), given="\ud800")
    job = replace(asked(state="failed"), **kept(error, "http"))
    store.add(job)

    assert error_of(store.job(job.id)).said_in("http") == "unknown a?b?."

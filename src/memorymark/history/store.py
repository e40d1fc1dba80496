"""Reads and writes the history: jobs with their events and results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from memorymark.errors import HistoryError, UsageError
from memorymark.history.configs import bring_back, hashes_in, put_away
from memorymark.history.database import Database
from memorymark.history.job import UNFINISHED, Job, JobEvent
from memorymark.history.listed import ListedJob
from memorymark.history.sweeps import Sweeps
from memorymark.history.tables import add, configs, events, jobs, storable, storable_text
from memorymark.history.text_search import has_words
from memorymark.results.old_documents import with_kind

URL_VARIABLE = "MEMORYMARK_DATABASE"
DAMAGED = "the history's database is damaged; restore its file from a backup."
LISTED = [
    jobs.c[name]
    for name in (
        "id",
        "origin",
        "state",
        "model",
        "model_name",
        "target",
        "kind",
        "recipe_words",
        "sample_words",
        "current_batch_size",
        "memory_cap_bytes",
        "created_at",
        "started_at",
        "finished_at",
        "error",
        "error_kind",
        "problem",
        "headline",
    )
]


def default_url() -> str:
    """Returns the URL of the history: the one in the environment, or a file in the user's data folder."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        return given
    from platformdirs import user_data_path

    return f"sqlite:///{user_data_path('memorymark') / 'history.db'}"


class Store:
    """Reads and writes jobs; each call is one transaction, durable when it returns.

    A missing file is created, unless it ``must_exist``.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        self._database = Database(url, must_exist=must_exist)
        self.sweeps = Sweeps(self._database)

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database, or ``None``."""
        return self._database.file

    def connection(self) -> AbstractContextManager[Connection]:
        """Opens a separate connection without a transaction, for locks that outlive one."""
        return self._database.connection()

    def require_room(self) -> None:
        """Raises if nothing can be written, with a message that names no paths; does not touch the database."""
        self._database.require_room()

    def damage(self) -> str | None:
        """Returns a sentence if the database is damaged, else ``None``; raises if it cannot be read at all."""
        if self._database.is_damaged():
            return DAMAGED
        try:
            with self._database.reading() as connection:
                for table in (jobs, events, configs):
                    connection.execute(select(table).limit(1)).first()
        except HistoryError:  # check again at once
            if self._database.is_damaged():
                return DAMAGED
            raise
        return None

    def add(self, job: Job, happened: Sequence[JobEvent] = ()) -> None:
        """Writes a new job."""
        self.add_all([(job, happened)])

    def add_all(self, new: Iterable[tuple[Job, Sequence[JobEvent]]]) -> None:
        """Writes new jobs with their events, all or none."""
        with self._database.writing() as connection:
            for job, happened in new:
                question, pasted = put_away(job.asked)
                changes, also_pasted = _changing(job)
                _add_configs(connection, {**pasted, **also_pasted})
                row = {**_staying(job), "question": question, "headline": None, "result": None, **changes}
                connection.execute(insert(jobs).values(row))
                _add_events(connection, job.id, happened)

    def save(self, job: Job, happened: Sequence[JobEvent] = ()) -> None:
        """Writes a job's changes and new events; idempotent."""
        with self._database.writing() as connection:
            changes, pasted = _changing(job)
            _add_configs(connection, pasted)
            found = connection.execute(update(jobs).where(jobs.c.id == job.id).values(**changes))
            if found.rowcount:  # else somebody has deleted the job from the database
                _add_events(connection, job.id, happened)

    def job(self, job_id: str) -> Job | None:
        """Returns the job with this id, or ``None``."""
        with self._database.reading() as connection:
            return _job(connection, jobs.c.id == job_id)

    def find(self, start_of_id: str) -> Job:
        """Returns the job whose id begins like this, since people copy only a few characters; raises if none does."""
        with self._database.reading() as connection:
            begins = jobs.c.id.startswith(start_of_id, autoescape=True)
            found = connection.scalars(select(jobs.c.id).where(begins).limit(2)).all() if start_of_id else []
            if len(found) > 1:
                raise UsageError(
                    f"several jobs begin with {start_of_id!r}; give more of the id.",
                    code="unknown_job",
                    field="job",
                    given=start_of_id,
                )
            job = _job(connection, jobs.c.id == found[0]) if found else None
        if job is None:
            raise UsageError(
                f"the history has no job {start_of_id!r}; `memorymark history` lists them.",
                code="unknown_job",
                field="job",
                given=start_of_id,
            )
        return job

    def jobs(
        self,
        *,
        model: str | None = None,
        state: str | None = None,
        search: str = "",
        limit: int = 50,
        before: str | None = None,
    ) -> list[ListedJob]:
        """Lists jobs, the latest first.

        A job must contain all words of ``search``; ``before`` is the id of a job, and only older ones are listed.
        """
        query = select(*LISTED).order_by(jobs.c.number.desc()).limit(limit)
        if model is not None:
            query = query.where(jobs.c.model == model)
        if state is not None:
            query = query.where(jobs.c.state == state)
        query = query.where(*has_words(search))
        with self._database.reading() as connection:
            if before is not None:
                number = connection.scalar(select(jobs.c.number).where(jobs.c.id == before))
                if number is None:
                    raise UsageError(
                        f"the history has no job {before!r} to continue from.",
                        code="unknown_job",
                        field="before",
                        given=before,
                    )
                query = query.where(jobs.c.number < number)
            return [_listed(row) for row in connection.execute(query)]

    def knows(self, model: str) -> bool:
        """Whether the history has a job about this model."""
        with self._database.reading() as connection:
            return connection.execute(select(jobs.c.id).where(jobs.c.model == model).limit(1)).first() is not None

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """Returns a job's events after the one with this number."""
        of_job = (events.c.job_id == job_id) & (events.c.number > after)
        with self._database.reading() as connection:
            rows = connection.execute(select(events).where(of_job).order_by(events.c.number)).all()
        return [JobEvent(row.number, row.event, row.data or {}, row.at) for row in rows]

    def answered(self, key: str) -> Job | None:
        """Returns the latest job with a reusable answer to the same question, or ``None``."""
        with self._database.reading() as connection:
            job = _job(connection, (jobs.c.key == key) & (jobs.c.state == "done") & jobs.c.reusable)
        return job if job is not None and job.result is not None else None  # a result may be damaged

    def concluded(self, key: str) -> Job | None:
        """Returns the latest job that settled a question: with an answer, or with a failure that would repeat."""
        repeats = (jobs.c.state == "failed") & jobs.c.error_kind.in_(("does_not_fit", "cannot_predict"))
        answered = (jobs.c.state == "done") & jobs.c.reusable
        with self._database.reading() as connection:
            job = _job(connection, (jobs.c.key == key) & (answered | repeats))
        return job if job is not None and (job.result is not None or job.error is not None) else None

    def unfinished(self) -> Iterator[Job]:
        """Yields jobs that a server left queued or running, in order of arrival, read one by one."""
        left = jobs.c.state.in_(UNFINISHED) & (jobs.c.origin == "http")
        with self._database.reading() as connection:
            found = connection.scalars(select(jobs.c.id).where(left).order_by(jobs.c.number)).all()
        for job_id in found:
            job = self.job(job_id)
            if job is not None and not job.is_finished:
                yield job

    def count(self) -> int:
        """Returns the number of jobs."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(jobs)) or 0


def _staying(job: Job) -> dict[str, Any]:
    """Returns the columns that never change, except the question."""
    return {
        "id": job.id,
        "origin": job.origin,
        "model": storable_text(job.model),
        "target": storable_text(job.target_name),
        "key": job.key,
        "fresh": job.fresh,
        "time_limit_seconds": job.time_limit_seconds,
        "created_at": job.created_at,
        "versions": job.versions,
        "machine": job.machine,
        "model_name": storable_text(job.model_name),
        "kind": job.kind,
        "recipe_words": storable_text(job.recipe_words),
        "sample_words": storable_text(job.sample_words),
        "current_batch_size": job.current_batch_size,
        "memory_cap_bytes": job.memory_cap_bytes,
    }


def _changing(job: Job) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns the columns that change after a job is submitted, and the configs that its result refers to."""
    columns: dict[str, Any] = {
        "state": job.state,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "error": storable_text(job.error),
        "error_kind": job.error_kind,
        "suggestions": job.suggestions,
        "problem": storable(job.problem),
    }
    if job.result is None:
        return columns, {}
    result, pasted = put_away(job.result)
    columns |= {
        "headline": job.headline,
        "result": result,
        "recipe_words": storable_text(job.recipe_words),
        "reusable": job.is_reusable,
    }
    return columns, pasted


def _add_configs(connection: Connection, pasted: dict[str, dict[str, Any]]) -> None:
    add(connection, configs, [{"hash": name, "config": config} for name, config in pasted.items()])


def _add_events(connection: Connection, job_id: str, happened: Iterable[JobEvent]) -> None:
    rows = [
        {"job_id": job_id, "number": one.number, "event": one.event, "data": one.data, "at": one.at} for one in happened
    ]
    add(connection, events, rows)


def _job(connection: Connection, which: Any) -> Job | None:
    """Returns the latest job that matches, complete, or ``None``."""
    row = connection.execute(select(jobs).where(which).order_by(jobs.c.number.desc()).limit(1)).first()
    if row is None:
        return None
    wanted = hashes_in(row.question) | hashes_in(row.result)
    found = connection.execute(select(configs).where(configs.c.hash.in_(wanted))).all() if wanted else []
    kept = {config.hash: config.config for config in found}
    return Job(
        id=row.id,
        origin=row.origin,
        model=row.model,
        asked=bring_back(row.question, kept) or {},
        fresh=row.fresh,
        time_limit_seconds=row.time_limit_seconds,
        key=row.key,
        created_at=row.created_at,
        versions=row.versions or {},
        machine=row.machine or {},
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        error_kind=row.error_kind,
        suggestions=row.suggestions,
        problem=row.problem,
        result=with_kind(bring_back(row.result, kept)),
    )


def _listed(row: Row[Any]) -> ListedJob:
    columns = dict(row._mapping)
    return ListedJob(target_name=columns.pop("target"), **columns)

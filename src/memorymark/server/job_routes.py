"""The routes that accept work and report on it."""

from __future__ import annotations

from typing import Any

from flask import Response, request
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import NotFound

from memorymark.history import Job, views
from memorymark.question.model_names import read_name, short_id
from memorymark.render.html import page
from memorymark.results.result import Result, result_from_dict
from memorymark.server import bodies, schemas
from memorymark.server.answers import STATUS_BY_KIND, success
from memorymark.server.asking import Asking
from memorymark.server.event_stream import EventStreams
from memorymark.server.handover import KEY, Handover
from memorymark.server.jobs import Jobs
from memorymark.server.metrics import Metrics
from memorymark.server.routes import GUARDED, JOBS, WORK, answers

STREAM = "text/event-stream"
HTML = "text/html; charset=utf-8"
PAGE: dict[str, Any] = {"description": "OK", "content": {"text/html": {"schema": {"type": "string"}}}}


def add_job_routes(
    app: OpenAPI, jobs: Jobs, metrics: Metrics, streams: EventStreams, *, longest_wait_seconds: float
) -> None:
    """Adds the routes to the app; ``POST /analyze`` waits no longer than ``longest_wait_seconds``."""
    asking = Asking(jobs, metrics, longest_wait_seconds=longest_wait_seconds)
    _add_waiting(app, asking)
    _add_line(app, jobs, asking)
    _add_single_jobs(app, jobs, asking)
    _add_report(app, asking)
    _add_events(app, jobs, asking, streams)


def _add_waiting(app: OpenAPI, asking: Asking) -> None:
    """Adds the calls that wait for the answer."""

    @app.post(
        "/analyze",
        tags=[WORK],
        responses=answers(413, 415, 429, 503, *STATUS_BY_KIND.values(), ok=schemas.AnalyzeAnswer),
        summary="Analyze a training and wait for the answer",
        **GUARDED,
    )
    def analyze(body: bodies.AnalyzeBody) -> Response:
        """Answers with the largest batch, the one worth using and what it saves; the question waits its turn."""
        return asking.waited_for(body)

    @app.post(
        "/advise",
        tags=[WORK],
        responses=answers(413, 415, 429, 503, *STATUS_BY_KIND.values(), ok=schemas.AdviseAnswer),
        summary="Find what to change about a training and wait for the advice",
        **GUARDED,
    )
    def advise(body: bodies.AdviseBody) -> Response:
        """Answers with ways to train, ranked by gain; waits as POST /analyze does."""
        return asking.waited_for(body, advise=True)


def _add_line(app: OpenAPI, jobs: Jobs, asking: Asking) -> None:
    """Adds the calls that submit jobs without waiting, and that list jobs."""

    @app.post(
        "/jobs",
        tags=[JOBS],
        responses=answers(413, 415, 429, 503, ok=schemas.JobAnswer, accepted=schemas.JobAnswer),
        summary="Ask for an analysis, or advice, without waiting",
        **GUARDED,
    )
    def submit(body: bodies.JobBody) -> Response:
        """Queues a question of any kind; answers with the new job, or an earlier one that has the answer."""
        asked = asking.submitted(body)
        view = views.whole(asked.job, jobs.position(asked.job.id), "http")
        response = success("job", 202 if asked.is_new else 200, reused=not asked.is_new, job=view)
        response.headers["Location"] = f"/jobs/{asked.job.id}"
        return response

    @app.get("/jobs", tags=[JOBS], responses=answers(503, ok=schemas.JobsAnswer), summary="Past jobs", **GUARDED)
    def list_jobs(query: bodies.JobsQuery) -> Response:
        """Lists jobs without their results, the latest first."""
        model = short_id(query.model) if query.model is not None else None
        found = jobs.store.jobs(
            model=model, state=query.state, search=query.search, limit=query.limit + 1, before=query.before
        )
        if model is not None and not found and not jobs.store.knows(model):
            read_name(model)  # raises with suggestions if the name is a typo
        page = [views.summary(jobs.current(job), "http") for job in found[: query.limit]]
        return success("jobs", jobs=page, next=page[-1]["id"] if len(found) > query.limit else None)


def _add_single_jobs(app: OpenAPI, jobs: Jobs, asking: Asking) -> None:
    """Adds the calls that show or cancel one job."""

    @app.get(
        "/jobs/<job_id>", tags=[JOBS], responses=answers(404, 503, ok=schemas.JobAnswer), summary="One job", **GUARDED
    )
    def show(path: bodies.JobPath) -> Response:
        """Returns a job: its question, its state and, once it is done, its result."""
        job = asking.existing(path.job_id)
        return success("job", reused=False, job=views.whole(job, jobs.position(job.id), "http"))

    @app.delete(
        "/jobs/<job_id>",
        tags=[JOBS],
        responses=answers(404, 503, ok=schemas.JobAnswer),
        summary="Cancel a job",
        **GUARDED,
    )
    def cancel(path: bodies.JobPath) -> Response:
        """Cancels a job that waits or runs; answers once it has ended. A job that had ended stays as it is."""
        job = asking.cancelled(asking.existing(path.job_id))
        return success("job", reused=False, job=views.whole(job, None, "http"))


def _add_report(app: OpenAPI, asking: Asking) -> None:
    """Adds the call that returns a result as a page."""

    @app.get(
        "/jobs/<job_id>/report",
        tags=[JOBS],
        responses=answers(404, 503, ok=PAGE),
        summary="The result of a job as an HTML page to keep or send",
        **GUARDED,
    )
    def report(path: bodies.JobPath, query: bodies.ReportQuery) -> Response:
        """Sends the result as one file that needs no network; a download, so that it never runs on this site."""
        job = asking.existing(path.job_id)
        result = _part(job, query.part)
        named = f"memorymark-{job.id}.html"  # a download, so that the page never runs on this origin
        return Response(
            page(result), content_type=HTML, headers={"Content-Disposition": f"attachment; filename={named}"}
        )


def _add_events(app: OpenAPI, jobs: Jobs, asking: Asking, streams: EventStreams) -> None:
    """Adds the call that follows a job."""

    @app.get(
        "/jobs/<job_id>/events",
        tags=[JOBS],
        responses=answers(404, 429, 503, ok=schemas.EventsAnswer, empty=None),
        summary="The events of a job, as they happen",
        **GUARDED,
    )
    def events(path: bodies.JobPath, query: bodies.EventsQuery) -> Response:
        """Streams the events as they happen, or lists those so far to a client that accepts only JSON."""
        job = asking.existing(path.job_id)
        after = max(query.after, _last_event_id())
        if request.accept_mimetypes.best_match([STREAM, "application/json"]) == "application/json":
            happened = jobs.events(job, after)
            state = (jobs.get(job.id) or job).state
            return success("events", state=state, events=[views.happened(event, "http") for event in happened])
        if job.is_finished and not jobs.events(job, after):
            return Response(status=204)  # so that a browser's EventSource does not reconnect
        return _streamed(streams, job, after)


def _streamed(streams: EventStreams, job: Job, after: int) -> Response:
    """Streams the events of a job; the front, if there is one, sends them itself."""
    stream, kind = streams.open(job, after), f"{STREAM}; charset=utf-8"
    handover: Handover | None = request.environ.get(KEY)
    if handover is None:
        return Response(stream, content_type=kind)
    handover.stream = stream
    return Response(content_type=kind)


def _part(job: Job, part: str | None) -> Result:
    """Returns the result of a job, or the analysis of one GPU or one length in it."""
    if job.result is None:
        raise NotFound("this job has no result to report.")
    document = job.result if part is None else (job.result.get("analyses") or {}).get(part)
    if document is None:
        raise NotFound("the result of this job has no such part; leave part out to get all of it.")
    return result_from_dict(document)


def _last_event_id() -> int:
    given = request.headers.get("Last-Event-ID", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0

"""Addresses that take work and tell what becomes of it."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Response, request
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import NotFound

from memorymark.errors import StoppedError
from memorymark.history import Job, views
from memorymark.models.names import read_name, short_id
from memorymark.render.html import page
from memorymark.result import Result, result_from_dict
from memorymark.server import bodies, schemas
from memorymark.server.answers import STATUS_BY_KIND, failure, in_http_terms, success
from memorymark.server.event_stream import EventStreams
from memorymark.server.handover import KEY, DoneAtOnce, Handover, Work
from memorymark.server.jobs import STOP_SECONDS, Jobs, Submitted
from memorymark.server.metrics import Metrics
from memorymark.server.routes import GUARDED, JOBS, WORK, answers

STREAM = "text/event-stream"
HTML = "text/html; charset=utf-8"
PAGE: dict[str, Any] = {"description": "OK", "content": {"text/html": {"schema": {"type": "string"}}}}
T = TypeVar("T")


def add_job_routes(
    app: OpenAPI, jobs: Jobs, metrics: Metrics, streams: EventStreams, *, longest_wait_seconds: float
) -> None:
    """Adds them to the app; ``POST /analyze`` waits no longer than ``longest_wait_seconds``."""

    def left(work: Work[T]) -> T:
        """What came of work that writes, or that is waited for; the front has it done elsewhere."""
        handover: Handover = request.environ.get(KEY) or DoneAtOnce(jobs)
        return handover.leave(work)

    def submitted(body: bodies.AnalyzeBody, wait_seconds: float | None = None) -> Submitted:
        question = body.question(allow_code=jobs.allow_code)
        handover = request.environ.get(KEY)
        known = None if body.fresh or (handover is not None and handover.is_done) else jobs.known(question)
        if known is not None:
            metrics.reused.inc()
            return Submitted(known, is_new=False)

        def submit() -> Submitted:
            return jobs.submit(question, fresh=body.fresh, time_limit_seconds=body.time_limit)

        if wait_seconds is None:
            asked = left(Work(submit))
        else:
            asked = left(Work(submit, job_of=lambda made: made.job.id, wait_seconds=wait_seconds))
        if not asked.is_new:  # somebody else's answer came meanwhile
            metrics.reused.inc()
        return asked

    def waited_for(body: bodies.AnalyzeBody) -> Response:
        asked = submitted(body, longest_wait_seconds).job
        job = asked if asked.is_finished else jobs.get(asked.id) or asked
        if jobs.is_stopping and not job.is_finished:
            raise StoppedError(f"the service is shutting down; job {job.id} goes on when it is started again.")
        if not job.is_finished:
            sentence = "the answer takes longer than this call may wait; GET /jobs/<job_id> will have it."
            return failure(504, sentence, job_id=job.id)
        if job.result is None:
            why = {"kind": job.error_kind, "suggestions": job.suggestions}
            return failure(STATUS_BY_KIND[job.error_kind], job.error or "", job_id=job.id, **why)
        return success(job_id=job.id, data=job.result)

    def existing(job_id: str) -> Job:
        job = jobs.get(job_id) if job_id.isalnum() and job_id.isascii() else None
        if job is None:
            raise NotFound("there is no job with this id; GET /jobs lists them.")
        return job

    @app.post(
        "/analyze",
        tags=[WORK],
        responses=answers(413, 415, 429, 503, *STATUS_BY_KIND.values(), ok=schemas.AnalyzeAnswer),
        summary="Analyze a training and wait for the answer",
        **GUARDED,
    )
    def analyze(body: bodies.AnalyzeBody) -> Response:
        return waited_for(body)

    @app.post(
        "/advise",
        tags=[WORK],
        responses=answers(413, 415, 429, 503, *STATUS_BY_KIND.values(), ok=schemas.AdviseAnswer),
        summary="Find what to change about a training and wait for the advice",
        **GUARDED,
    )
    def advise(body: bodies.AdviseBody) -> Response:
        return waited_for(body)

    @app.post(
        "/jobs",
        tags=[JOBS],
        responses=answers(413, 415, 429, 503, ok=schemas.JobAnswer, accepted=schemas.JobAnswer),
        summary="Ask for an analysis, or advice, without waiting",
        **GUARDED,
    )
    def submit(body: bodies.JobBody) -> Response:
        asked = submitted(body)
        view = shown(asked.job, jobs.position(asked.job.id))
        response = success(202 if asked.is_new else 200, reused=not asked.is_new, job=view)
        response.headers["Location"] = f"/jobs/{asked.job.id}"
        return response

    @app.get("/jobs", tags=[JOBS], responses=answers(503, ok=schemas.JobsAnswer), summary="Past jobs", **GUARDED)
    def list_jobs(query: bodies.JobsQuery) -> Response:
        model = short_id(query.model) if query.model is not None else None
        found = jobs.store.jobs(
            model=model, state=query.state, search=query.search, limit=query.limit + 1, before=query.before
        )
        if model is not None and not found and not jobs.store.knows(model):
            read_name(model)  # a slip of the pen is answered with what was perhaps meant
        page = [in_http_terms(views.summary(jobs.current(job))) for job in found[: query.limit]]
        return success(jobs=page, next=page[-1]["id"] if len(found) > query.limit else None)

    @app.get(
        "/jobs/<job_id>", tags=[JOBS], responses=answers(404, 503, ok=schemas.JobAnswer), summary="One job", **GUARDED
    )
    def show(path: bodies.JobPath) -> Response:
        job = existing(path.job_id)
        return success(reused=False, job=shown(job, jobs.position(job.id)))

    @app.delete(
        "/jobs/<job_id>",
        tags=[JOBS],
        responses=answers(404, 503, ok=schemas.JobAnswer),
        summary="Cancel a job",
        **GUARDED,
    )
    def cancel(path: bodies.JobPath) -> Response:
        job = existing(path.job_id)
        if not job.is_finished:
            job_of = lambda _: job.id  # noqa: E731
            left(Work(lambda: jobs.cancel(job.id), job_of, wait_seconds=STOP_SECONDS, briefly=True))
        return success(reused=False, job=shown(jobs.get(job.id) or job, None))

    @app.get(
        "/jobs/<job_id>/report",
        tags=[JOBS],
        responses=answers(404, 503, ok=PAGE),
        summary="The result of a job as an HTML page to keep or send",
        **GUARDED,
    )
    def report(path: bodies.JobPath, query: bodies.ReportQuery) -> Response:
        job = existing(path.job_id)
        result = _part(job, query.part)
        named = f"memorymark-{job.id}.html"  # to be kept: it is not for this origin to show
        return Response(
            page(result), content_type=HTML, headers={"Content-Disposition": f"attachment; filename={named}"}
        )

    @app.get(
        "/jobs/<job_id>/events",
        tags=[JOBS],
        responses=answers(404, 429, 503, ok=schemas.EventsAnswer, empty=None),
        summary="What happens to a job, as it happens",
        **GUARDED,
    )
    def events(path: bodies.JobPath, query: bodies.EventsQuery) -> Response:
        job = existing(path.job_id)
        after = max(query.after, _last_event_id())
        if request.accept_mimetypes.best_match([STREAM, "application/json"]) == "application/json":
            happened = jobs.events(job, after)
            state = (jobs.get(job.id) or job).state
            return success(state=state, events=[in_http_terms(views.happened(event)) for event in happened])
        if job.is_finished and not jobs.events(job, after):
            return Response(status=204)  # so that a browser's EventSource does not come again
        stream, kind = streams.open(job, after), f"{STREAM}; charset=utf-8"
        handover: Handover | None = request.environ.get(KEY)
        if handover is None:
            return Response(stream, content_type=kind)
        handover.stream = stream
        return Response(content_type=kind)


def shown(job: Job, position: int | None) -> dict[str, Any]:
    """A job with all there is to know, in the words of HTTP."""
    return in_http_terms(views.whole(job, position))


def _part(job: Job, part: str | None) -> Result:
    """The result of a job, or the analysis of one GPU or one length in it."""
    if job.result is None:
        raise NotFound("this job has no result to report.")
    document = job.result if part is None else (job.result.get("analyses") or {}).get(part)
    if document is None:
        raise NotFound("the result of this job has no such part; leave it out for the whole.")
    return result_from_dict(document)


def _last_event_id() -> int:
    given = request.headers.get("Last-Event-ID", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0

"""A client of the service: sends questions to a MemoryMark server and returns its results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote, urlencode, urlsplit

from memorymark.errors import (
    MemoryMarkError,
    NotAllowedError,
    QueueFullError,
    ServerError,
    StoppedError,
    UsageError,
    of_kind,
)
from memorymark.events import EVENTS, HeardTrials, OnEvent, StageStarted, ignore
from memorymark.keywords import make_question, split_lengths, taken_run
from memorymark.question.flat import over_http
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.results.old_documents import with_kind
from memorymark.results.result import Result, result_from_dict

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from typing_extensions import Unpack

    from memorymark.keyword_types import AnalysisOptions

DEFAULT_PORT = 5001
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
SERVER_VARIABLE = "MEMORYMARK_SERVER"
TOKEN_VARIABLE = "MEMORYMARK_TOKEN"  # noqa: S105 - the name of a variable, not a token
# A server sends something at least every 15 s; one that is silent for this long is gone.
SILENCE_SECONDS = 60.0
RECONNECTS = 10
RECONNECT_SECONDS = 1.0
ERRORS_BY_STATUS: dict[int, type[MemoryMarkError]] = {
    400: UsageError,
    401: UsageError,
    403: NotAllowedError,
    404: UsageError,
    429: QueueFullError,
}
# What reading an error raises when the document is not an error.
NO_DOCUMENT = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class RemoteJob:
    """A job on the server; ``document`` is its whole JSON, the other fields are the most used parts of it."""

    id: str
    state: str
    error: str | None
    document: dict[str, Any]

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state not in ("queued", "running")

    def result(self) -> Result:
        """Returns the result, or raises the error that the job ended with."""
        found = self.document.get("result")
        if found is None:
            raise self._failure()
        return result_from_dict(with_kind(found))  # older servers send no kind

    def _failure(self) -> MemoryMarkError:
        if self.error is None:
            return StoppedError(f"job {self.id} is still {self.state}.")
        older = of_kind(self.document.get("error_kind"), self.error, self.document.get("suggestions"))
        return _read(self.document.get("problem"), older)


class Client:
    """Talks to a MemoryMark service.

        client = Client("http://gpu-box:5001", token="...")
        result = client.analyze("bert", precision="bf16")

    Without ``url`` and ``token``, the environment variables MEMORYMARK_SERVER and MEMORYMARK_TOKEN are used; the last
    resort is the default port of this machine.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout_seconds: float = 30.0) -> None:
        url = url if url is not None else os.environ.get(SERVER_VARIABLE) or DEFAULT_URL
        try:
            parts = urlsplit(url if "//" in url else f"http://{url}")
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise UsageError(
                f"{url!r} is not the address of a server; give one such as {DEFAULT_URL}.",
                code="malformed",
                field="server",
                given=url,
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._timeout_seconds = timeout_seconds
        token = token or os.environ.get(TOKEN_VARIABLE)
        if token and not can_be_sent(token):
            raise UsageError(
                "the token contains spaces or characters that cannot be sent; use the token the server was started "
                "with.",
                code="malformed",
                field="token",
            )
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def health(self) -> dict[str, Any]:
        """Returns the server's health document."""
        health: dict[str, Any] = self._call("GET", "/health")
        return health

    def models(self) -> list[dict[str, Any]]:
        """Lists the models that the server knows by name."""
        models: list[dict[str, Any]] = self._call("GET", "/models", wants="models")
        return models

    def gpus(self) -> list[dict[str, Any]]:
        """Lists the GPUs that the server knows by name; ``here`` marks its own."""
        gpus: list[dict[str, Any]] = self._call("GET", "/gpus", wants="gpus")
        return gpus

    @overload
    def analyze(
        self,
        model: str | Request,
        *,
        seq_len: int | None = None,
        all_gpus: Literal[False] = False,
        fresh: bool = False,
        **options: Unpack[AnalysisOptions],
    ) -> Analysis: ...
    @overload
    def analyze(
        self, model: str | Request, *, seq_len: Sequence[int], fresh: bool = False, **options: Unpack[AnalysisOptions]
    ) -> Sweep: ...
    @overload
    def analyze(
        self,
        model: str | Request,
        *,
        seq_len: int | None = None,
        all_gpus: Literal[True],
        fresh: bool = False,
        **options: Unpack[AnalysisOptions],
    ) -> Comparison: ...
    def analyze(
        self,
        model: str | Request,
        *,
        seq_len: int | Sequence[int] | None = None,
        all_gpus: bool = False,
        fresh: bool = False,
        **options: Any,
    ) -> Result:
        """Asks the server what ``memorymark.analyze`` answers on this machine; takes the same options."""
        return self._ask(model, {**options, **split_lengths(seq_len), "all_gpus": all_gpus}, fresh)

    def advise(
        self,
        model: str | Request,
        *,
        seq_len: int | None = None,
        try_compile: bool = True,
        fresh: bool = False,
        **options: Unpack[AnalysisOptions],
    ) -> Advice:
        """Asks the server what ``memorymark.advise`` answers on this machine; takes the same options."""
        given = {**options, **split_lengths(seq_len), "advise": True, "try_compile": try_compile}
        advice = self._ask(model, given, fresh)
        assert isinstance(advice, Advice)  # noqa: S101 - that is what was asked for
        return advice

    def _ask(self, model: str | Request, options: dict[str, Any], fresh: bool) -> Result:
        if not isinstance(model, str | Request):
            raise UsageError(
                "a server builds its models by name, so give a name or a Request; for a Workload, use "
                "memorymark.analyze.",
                code="wrong_type",
                field="model",
            )
        run = taken_run(options)
        return self.answer(make_question(model, options), fresh=fresh, **run)

    def answer(
        self,
        question: Question,
        *,
        fresh: bool = False,
        time_limit_seconds: float | None = None,
        on_event: OnEvent = ignore,
    ) -> Result:
        """Submits the question, reports progress to ``on_event``, and returns the result."""
        if not isinstance(question, Question):
            raise UsageError(
                "Client.answer takes a memorymark.Question; to pass a model's name, use Client.analyze.",
                code="wrong_type",
            )
        job = self.submit(question, fresh=fresh, time_limit_seconds=time_limit_seconds)
        heard = HeardTrials(on_event)
        if not job.is_finished:
            for event in self.events(job.id):
                _tell(heard.hear, event)
            job = self.job(job.id)
        with heard.kept_on_error():
            return job.result()

    def submit(self, question: Question, *, fresh: bool = False, time_limit_seconds: float | None = None) -> RemoteJob:
        """Submits the question and returns its job without waiting for the result."""
        body = as_body(question, fresh=fresh, time_limit=time_limit_seconds)
        return _job(self._call("POST", "/jobs", body, wants="job"))

    def job(self, job_id: str) -> RemoteJob:
        """Returns the current state of a job."""
        return _job(self._call("GET", f"/jobs/{quote(job_id, safe='')}", wants="job"))

    def jobs(
        self, *, model: str | None = None, state: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[RemoteJob]:
        """Lists jobs without their results, the latest first; ``before`` is the id of the last job already listed."""
        asked = {"model": model, "state": state, "limit": limit, "before": before}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return [_job(document) for document in self._call("GET", f"/jobs?{query}", wants="jobs")]

    def cancel(self, job_id: str) -> RemoteJob:
        """Stops a queued or running job."""
        return _job(self._call("DELETE", f"/jobs/{quote(job_id, safe='')}", wants="job"))

    def sweeps(self, *, limit: int = 50, before: str | None = None) -> list[dict[str, Any]]:
        """Lists sweeps without their cases, the last to start first; ``before`` is the id of the last one listed."""
        asked = {"limit": limit, "before": before}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        sweeps: list[dict[str, Any]] = self._call("GET", f"/sweeps?{query}", wants="sweeps")
        return sweeps

    def sweep(self, sweep_id: str, *, after: int = 0) -> dict[str, Any]:
        """Returns a sweep and up to 1,000 cases; its ``upto``, given as ``after``, gets what changed since."""
        sweep: dict[str, Any] = self._call("GET", f"/sweeps/{quote(sweep_id, safe='')}?after={after}", wants="sweep")
        return sweep

    def events(self, job_id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yields the events of a job as they happen, until its last; reconnects when the stream breaks."""
        tries = 0
        while tries <= RECONNECTS:
            try:
                for event in self._stream(job_id, after):
                    after, tries = event["id"], 0
                    yield event
                    if event["event"] in ("result", "error"):
                        return
                if self.job(job_id).is_finished and not self._poll(job_id, after):
                    return
                continue  # the server ends long streams; the next one continues from the last event
            except QueueFullError:  # too many streams are open; polling returns the same events
                for event in self._poll(job_id, after):
                    after = event["id"]
                    yield event
                if self.job(job_id).is_finished and not self._poll(job_id, after):
                    return
                time.sleep(RECONNECT_SECONDS)
                continue
            except ServerError:
                if tries == RECONNECTS:
                    raise
                time.sleep(RECONNECT_SECONDS)
            tries += 1

    def _poll(self, job_id: str, after: int) -> list[dict[str, Any]]:
        path = f"/jobs/{quote(job_id, safe='')}/events?after={after}"
        events: list[dict[str, Any]] = self._call("GET", path, wants="events")
        return events

    def _stream(self, job_id: str, after: int) -> Iterator[dict[str, Any]]:
        from http.client import HTTPException

        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        path = f"/jobs/{quote(job_id, safe='')}/events"
        with self._open("GET", path, headers=headers, timeout_seconds=SILENCE_SECONDS) as response:
            try:
                for line in response:
                    if line.startswith(b"data: "):
                        yield json.loads(line[len(b"data: ") :])
            except (OSError, ValueError, HTTPException) as error:
                raise ServerError(f"the connection to {self.url} broke: {error or type(error).__name__}.") from None

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None, *, wants: str | None = None) -> Any:
        """Returns the server's answer, or only its field ``wants``."""
        from http.client import HTTPException

        accept = {"Accept": "application/json"}
        try:
            with self._open(method, path, body, headers=accept, timeout_seconds=self._timeout_seconds) as response:
                answer = json.load(response)
            return dict(answer) if wants is None else answer[wants]
        except (OSError, ValueError, HTTPException, KeyError, TypeError):
            raise ServerError(f"{self.url} is not a MemoryMark server; check the address.") from None

    def _open(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        headers: dict[str, str] | None = None,
        timeout_seconds: float,
    ) -> HTTPResponse:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if body is not None else {}
        request = Request(  # noqa: S310 - the scheme was checked
            self.url + path, data=data, method=method, headers={**self._headers, **kind, **(headers or {})}
        )
        try:
            response: HTTPResponse = urlopen(request, timeout=timeout_seconds)  # noqa: S310
        except HTTPError as error:
            with error:
                raise _raised(error.code, error.read()) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise ServerError(
                f"no server answers at {self.url} ({reason}); start one with `memorymark serve`, or check the address."
            ) from None
        return response


def can_be_sent(token: str) -> bool:
    """Whether a header can carry the token: printable ASCII without spaces."""
    return token.isascii() and token.isprintable() and " " not in token


def as_body(question: Question, *, fresh: bool = False, time_limit: float | None = None) -> dict[str, Any]:
    """The question as the body of ``POST /jobs``."""
    body = over_http(question)
    body |= {"fresh": True} if fresh else {}
    return body if time_limit is None else {**body, "time_limit": time_limit}


def _job(document: dict[str, Any]) -> RemoteJob:
    return RemoteJob(document["id"], document["state"], document["error"], document)


def _tell(on_event: OnEvent, event: dict[str, Any]) -> None:
    data = event["data"]
    if (heard := EVENTS.get(event["event"])) is not None:
        on_event(heard.from_dict(data))
    elif event["event"] == "state" and data["state"] == "queued":
        on_event(StageStarted("start", "waiting in line"))


def _raised(status: int, body: bytes) -> MemoryMarkError:
    try:
        answer = json.loads(body)
        sentence, kind = str(answer["error"]), answer.get("kind")
    except NO_DOCUMENT:
        return ServerError(f"the server answered with status {status} and no message; is it a MemoryMark server?")
    older = of_kind(kind, sentence) if kind else ERRORS_BY_STATUS.get(status, ServerError)(sentence)
    return _read(answer, older)


def _read(document: Any, older: MemoryMarkError) -> MemoryMarkError:
    """Returns the error that a server sent, or ``older`` if its version sends errors only as sentences."""
    try:
        return MemoryMarkError.from_dict(document, "http", otherwise=type(older))
    except NO_DOCUMENT:
        return older

"""A client of the service: the same questions and answers as here, worked out there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    MemoryMarkError,
    QueueFullError,
    ServerError,
    StoppedError,
    UsageError,
    WorkerError,
)
from memorymark.events import Event, OnEvent, StageStarted, TrialFinished, ignore
from memorymark.question import Question
from memorymark.result import Result, result_from_dict
from memorymark.server import DEFAULT_PORT
from memorymark.suggestion import Suggestion
from memorymark.trial import Trial
from memorymark.units import GIB

if TYPE_CHECKING:
    from http.client import HTTPResponse

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
TOKEN_VARIABLE = "MEMORYMARK_TOKEN"  # noqa: S105 - the name of a variable, not a token
# A server sends something at least every 15 s; after this long it must be gone.
SILENCE_SECONDS = 60.0
RECONNECTS = 10
RECONNECT_SECONDS = 1.0
ERRORS_BY_KIND: dict[str | None, type[MemoryMarkError]] = {
    "usage": UsageError,
    "does_not_fit": DoesNotFitError,
    "cannot_predict": CannotPredictError,
    "worker": WorkerError,
    "time_limit": StoppedError,
    "stopped": StoppedError,
    "internal": ServerError,
}
ERRORS_BY_STATUS: dict[int, type[MemoryMarkError]] = {
    400: UsageError,
    401: UsageError,
    403: UsageError,
    404: UsageError,
    429: QueueFullError,
}


@dataclass(frozen=True)
class RemoteJob:
    """A job as the server tells it; ``document`` has everything, the rest is what is asked for most."""

    id: str
    state: str
    error: str | None
    document: dict[str, Any]

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state not in ("queued", "running")

    def result(self) -> Result:
        """The answer; raises what kept it from being found."""
        found = self.document.get("result")
        if found is None:
            kind = ERRORS_BY_KIND.get(self.document.get("error_kind"), StoppedError)
            error = kind(self.error or f"job {self.id} is still {self.state}.")
            found = self.document.get("suggestions")
            if isinstance(error, DoesNotFitError) and found is not None:
                error.suggestions = [Suggestion.from_dict(one) for one in found]
            raise error
        return result_from_dict(found)


class Client:
    """Talks to a MemoryMark service.

    client = Client("http://gpu-box:5001", token="...")
    result = client.answer(Question(request=Request(model="bert")))

    The token may also come from the variable MEMORYMARK_TOKEN.
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: str | None = None, timeout_seconds: float = 30.0) -> None:
        try:
            parts = urlsplit(url if "//" in url else f"http://{url}")
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise UsageError(f"{url!r} is no address of a server; give one such as {DEFAULT_URL}.")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._timeout_seconds = timeout_seconds
        token = token or os.environ.get(TOKEN_VARIABLE)
        if token and not can_be_sent(token):
            raise UsageError("the token holds spaces or signs that cannot be sent; give it as the server was given it.")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def health(self) -> dict[str, Any]:
        """How the service is."""
        health: dict[str, Any] = self._call("GET", "/health")
        return health

    def models(self) -> list[dict[str, Any]]:
        """The models it knows by name."""
        models: list[dict[str, Any]] = self._call("GET", "/models", wants="models")
        return models

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs it knows by name; ``here`` marks its own."""
        gpus: list[dict[str, Any]] = self._call("GET", "/gpus", wants="gpus")
        return gpus

    def answer(
        self,
        question: Question,
        *,
        fresh: bool = False,
        time_limit_seconds: float | None = None,
        on_event: OnEvent = ignore,
    ) -> Result:
        """Asks, listens while it is worked out, and gives the answer."""
        if not isinstance(question, Question):
            raise UsageError("a client is asked a memorymark.Question; for a model's name there is `analyze`.")
        job = self.submit(question, fresh=fresh, time_limit_seconds=time_limit_seconds)
        trials: list[Trial] = []

        def hear(event: Event) -> None:
            if isinstance(event, TrialFinished):
                trials.append(event.trial)
            on_event(event)

        if not job.is_finished:
            for event in self.events(job.id):
                _tell(hear, event)
            job = self.job(job.id)
        try:
            return job.result()
        except MemoryMarkError as error:
            error.trials = trials
            raise

    def submit(self, question: Question, *, fresh: bool = False, time_limit_seconds: float | None = None) -> RemoteJob:
        """Asks without waiting."""
        body = as_body(question, fresh=fresh, time_limit=time_limit_seconds)
        return _job(self._call("POST", "/jobs", body, wants="job"))

    def job(self, job_id: str) -> RemoteJob:
        """A job as it is now."""
        return _job(self._call("GET", f"/jobs/{quote(job_id, safe='')}", wants="job"))

    def jobs(
        self, *, model: str | None = None, state: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[RemoteJob]:
        """Past jobs without their results, the latest first; ``before`` is the id of one to go on from."""
        asked = {"model": model, "state": state, "limit": limit, "before": before}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return [_job(document) for document in self._call("GET", f"/jobs?{query}", wants="jobs")]

    def cancel(self, job_id: str) -> RemoteJob:
        """Stops a job that waits or runs."""
        return _job(self._call("DELETE", f"/jobs/{quote(job_id, safe='')}", wants="job"))

    def events(self, job_id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every event of a job as it happens, until its last; connects again where the stream breaks."""
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
                continue  # a stream has a bounded life, and the next goes on where it ended
            except QueueFullError:  # too many watch; asking now and then tells the same
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
        """The answer, or the field of it that is wanted."""
        from http.client import HTTPException

        accept = {"Accept": "application/json"}
        try:
            with self._open(method, path, body, headers=accept, timeout_seconds=self._timeout_seconds) as response:
                answer = json.load(response)
            return dict(answer) if wants is None else answer[wants]
        except (OSError, ValueError, HTTPException, KeyError, TypeError):
            raise ServerError(f"what answers at {self.url} is no MemoryMark server; check the address.") from None

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
    request, recipe, target = question.request, question.request.recipe, question.request.target
    body = {
        # A folder of this machine says nothing there; its config does.
        "model_name": request.entry.id if request.config is not None else request.model,
        "config": request.config,
        "task": request.task,
        "revision": request.revision,
        "trust_remote_code": request.trust_remote_code,
        "gpu": target.gpu,
        "device": target.device,
        "precision": recipe.precision,
        "optimizer": recipe.optimizer,
        "fused": recipe.fused,
        "lora": recipe.lora,
        "attention": recipe.attention,
        "gradient_checkpointing": recipe.gradient_checkpointing,
        "compile": recipe.compile,
        "channels_last": recipe.channels_last,
        "tf32": recipe.tf32,
        "eval_mode": not recipe.train_mode,
        "loss": recipe.loss,
        "accumulate": recipe.accumulation_steps,
        "seq_len": request.seq_len,
        "image_size": request.image_size,
        "audio_seconds": request.audio_seconds,
        "small": request.small,
        "batch_size": question.current_batch_size,
        "max_batch": question.max_batch,
        "memory_gib": None if target.memory_cap_bytes is None else target.memory_cap_bytes / GIB,
        "margin": question.margin,
        "price_per_hour": question.price_per_hour,
        "hours_per_run": question.usage.hours_per_run,
        "runs_per_year": question.usage.runs_per_year,
        "people": question.usage.people,
        "fresh": fresh,
        "time_limit": time_limit,
        "all_gpus": question.all_gpus,
        "seq_lens": list(question.seq_lens) or None,
        "advise": question.advise,
        "try_compile": question.try_compile,
    }
    return {name: value for name, value in body.items() if value is not None}


def _job(document: dict[str, Any]) -> RemoteJob:
    return RemoteJob(document["id"], document["state"], document["error"], document)


def _tell(on_event: OnEvent, event: dict[str, Any]) -> None:
    data = event["data"]
    if event["event"] == "stage":
        on_event(StageStarted(data["stage"], data["message"], data.get("capacity_bytes")))
    elif event["event"] == "trial":
        on_event(TrialFinished(data["stage"], Trial.from_dict(data["trial"])))
    elif event["event"] == "state" and data["state"] == "queued":
        on_event(StageStarted("start", "waiting in line"))


def _raised(status: int, body: bytes) -> MemoryMarkError:
    try:
        answer = json.loads(body)
        sentence, kind = str(answer["error"]), answer.get("kind")
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered with status {status} and no word; is it a MemoryMark server?")
    return (ERRORS_BY_KIND.get(kind) or ERRORS_BY_STATUS.get(status) or ServerError)(sentence)

"""Answers and errors over HTTP: always JSON, always with a status, never with internals."""

from __future__ import annotations

import logging
from typing import Any, cast

from flask import Flask, Response, g, jsonify, make_response
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException, NotFound

from memorymark.catalog import all_models, some_models
from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    ErrorKind,
    HistoryError,
    MemoryMarkError,
    NotAllowedError,
    QueueFullError,
    ServerError,
    StoppedError,
    UsageError,
)
from memorymark.messages import Message
from memorymark.server.handover import LeftError
from memorymark.server.validation import as_usage_error

log = logging.getLogger(__name__)

STATUS_BY_ERROR: dict[type[MemoryMarkError], int] = {
    NotAllowedError: 403,
    UsageError: 400,
    DoesNotFitError: 422,
    CannotPredictError: 422,
    QueueFullError: 429,
    HistoryError: 503,
    StoppedError: 503,
}
STATUS_BY_KIND: dict[ErrorKind | None, int] = {
    "usage": 400,
    "does_not_fit": 422,
    "cannot_predict": 422,
    "worker": 500,
    "internal": 500,
    "time_limit": 504,
    "stopped": 503,
    None: 409,
}
REFUSALS = {
    404: "there is nothing at this address; GET / lists all addresses.",
    405: "this address does not support that method; GET / lists all addresses.",
    413: "the body is too large; a question needs a few hundred bytes, a config at most 256 KiB.",
    415: "send JSON, with the header Content-Type: application/json.",
}
RETRY_AFTER_SECONDS = {429: 10, 503: 5}


def success(kind: str, status: int = 200, **fields: Any) -> Response:
    """Returns a successful answer with its kind."""
    return make_response(jsonify(kind=kind, status="success", **fields), status)


def failure(status: int, error: MemoryMarkError, **fields: Any) -> Response:
    """Returns an error: one sentence that says what to do, and the same as data."""
    response = make_response(jsonify(status="error", **error.to_dict("http"), **fields), status)
    if status in RETRY_AFTER_SECONDS:
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS[status])
    return response


def no_object() -> UsageError:
    """Returns the error for a body that is not a JSON object."""
    return UsageError(
        Message(
            "the body must be a JSON object such as {example}; model_name is {some}, for example: {list.models} lists "
            "all {number}.",
            example=f'{{"model_name": "{all_models()[0].id}"}}',
            some=some_models(),
            number=len(all_models()),
        ),
        code="malformed",
    )


def invalid(error: ValidationError) -> Response:
    """Returns the answer for an invalid body or query, with its first fault."""
    return failure(400, as_usage_error(error) or no_object())


def explain_errors(app: Flask) -> None:
    """Gives every error the same shape."""

    @app.errorhandler(LeftError)
    def left(_: LeftError) -> Response:
        g.is_left = True
        return Response(status=204)  # never sent: the view is called again

    @app.errorhandler(MemoryMarkError)
    def known(error: MemoryMarkError) -> Response:
        status = next((code for kind, code in STATUS_BY_ERROR.items() if isinstance(error, kind)), 500)
        if isinstance(error, HistoryError):
            log.error("%s", error)
            error = HistoryError("the history cannot be used now; the log says why, ask again later.")
        return failure(status, error)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        return cast("Response", error.response) if error.response is not None else _refusal(error)

    @app.errorhandler(Exception)
    def unknown(_: Exception) -> Response:
        log.exception("a request failed")
        return failure(500, ServerError("something went wrong inside the service; its log says what.", code="internal"))


def _refusal(error: HTTPException) -> Response:
    """Returns the answer for a call that the web framework, or a check before the view, rejected."""
    status = error.code or 500
    is_ours = status in (401, 403) or (status == 404 and error.description != NotFound.description)
    sentence = (error.description if is_ours else None) or REFUSALS.get(status) or f"{error.name}."
    known: dict[int, MemoryMarkError] = {
        401: UsageError(sentence, code="unauthorized"),
        403: NotAllowedError(sentence),
        404: UsageError(sentence, code="not_found"),
    }
    usual = UsageError(sentence) if status < 500 else ServerError(sentence, code="internal")
    response = failure(status, known.get(status, usual))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status == 405:
        response.headers["Allow"] = dict(error.get_headers()).get("Allow", "GET")
    return response

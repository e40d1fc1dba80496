"""How answers and errors look over HTTP: always JSON, always with a status, never with internals."""

from __future__ import annotations

import logging
import re
from dataclasses import fields
from typing import Any, cast

from flask import Flask, Response, g, jsonify, make_response
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException, NotFound

from memorymark.catalog import all_models, some_models
from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    HistoryError,
    MemoryMarkError,
    NotAllowedError,
    QueueFullError,
    StoppedError,
    UsageError,
)
from memorymark.history.job import ErrorKind
from memorymark.server.handover import LeftError
from memorymark.server.settings import Settings

log = logging.getLogger(__name__)

NO_OBJECT = (
    f'the body must be a JSON object such as {{"model_name": "{all_models()[0].id}"}}; model_name is {some_models()}, '
    f"for example: GET /models lists all {len(all_models())}."
)
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
OF_THE_OPERATOR = {setting.name for setting in fields(Settings)}
RETRY_AFTER_SECONDS = {429: 10, 503: 5}


def over_http(sentence: str) -> str:
    """A sentence that names options and commands of the command line, in the terms of HTTP.

    ``--seq-len`` is ``seq_len``, and ``memorymark models`` is ``GET /models``; what the operator sets keeps its name.
    """

    def field(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return option[0] if name in OF_THE_OPERATOR else name

    sentence = re.sub(r"`memorymark (models|gpus)`", r"GET /\1", sentence)
    return re.sub(r"--([a-z][a-z0-9-]*)", field, sentence)


def in_http_terms(view: dict[str, Any]) -> dict[str, Any]:
    """A job or an event whose error speaks of HTTP fields."""
    if view.get("event") == "error":
        return {**view, "data": in_http_terms(view["data"])}
    return {**view, "error": over_http(view["error"])} if view.get("error") else view


def success(status: int = 200, **fields: Any) -> Response:
    """An answer."""
    return make_response(jsonify(status="success", **fields), status)


def failure(status: int, sentence: str, **fields: Any) -> Response:
    """An error: one sentence that says what to do."""
    response = make_response(jsonify(status="error", error=over_http(sentence), **fields), status)
    if status in RETRY_AFTER_SECONDS:
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS[status])
    return response


def invalid(error: ValidationError) -> Response:
    """What the body or the query does not keep to, the first fault of it, in words."""
    fault = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return failure(400, f"there is no field {field!r}; see the documentation at /openapi/swagger.")
    if not field:
        return failure(400, NO_OBJECT)
    return failure(400, f"{field}: {fault['msg'][:1].lower()}{fault['msg'][1:]}.")


def explain_errors(app: Flask) -> None:
    """Gives every error the same shape."""

    @app.errorhandler(LeftError)
    def left(_: LeftError) -> Response:
        g.is_left = True
        return Response(status=204)  # which nobody is sent: the view is called again

    @app.errorhandler(MemoryMarkError)
    def known(error: MemoryMarkError) -> Response:
        status = next((code for kind, code in STATUS_BY_ERROR.items() if isinstance(error, kind)), 500)
        if isinstance(error, HistoryError):
            log.error("%s", error)
            return failure(status, "the history cannot be used now; the log says why, ask again later.")
        return failure(status, error.sentence)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        if error.response is not None:
            return cast("Response", error.response)
        sentences = {
            404: "there is nothing here; GET / lists what there is.",
            405: "this address does not take that method; GET / lists what there is.",
            413: "the body is too large; a question needs a few hundred bytes, a config at most 256 KiB.",
            415: "send JSON, with the header Content-Type: application/json.",
        }
        code = error.code or 500
        is_ours = code in (401, 403) or (code == 404 and error.description != NotFound.description)
        response = failure(code, (error.description if is_ours else None) or sentences.get(code) or f"{error.name}.")
        if code == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if code == 405:
            response.headers["Allow"] = dict(error.get_headers()).get("Allow", "GET")
        return response

    @app.errorhandler(Exception)
    def unknown(_: Exception) -> Response:
        log.exception("a request failed")
        return failure(500, "something went wrong inside the service; its log says what.")

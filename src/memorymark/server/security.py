"""Checks who may call, by token and host, and tells browsers what they may do with an answer."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import Forbidden, HTTPException, Unauthorized

from memorymark.server.settings import Settings

# The dashboard's files hold nothing secret and must load before anyone can type a token.
OPEN_PATHS = ("/", "/health", "/favicon.svg")
OPEN_FOLDERS = ("/assets/", "/openapi/")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
# Swagger UI starts itself with a script inside its page.
DOCS_POLICY = POLICY + "; script-src 'self' 'unsafe-inline'"


def refusal(settings: Settings, method: str, path: str, *, host: str, authorization: str) -> HTTPException | None:
    """Returns why a call is rejected, or ``None``."""
    # A foreign page can make its own host name point at this machine (DNS rebinding); its calls then carry that name.
    if (
        settings.is_local
        and settings.token is None
        and urlsplit(f"//{host}").hostname not in (*LOCAL_NAMES, settings.host)
    ):
        return Forbidden("this service answers only on this machine; call it as localhost.")
    if method == "OPTIONS" or settings.token is None or _is_open(path):
        return None
    if not _shows(settings.token, authorization):
        return Unauthorized("this service requires a token; send the header Authorization: Bearer <token>.")
    return None


def mark(settings: Settings, path: str, origin: str | None, headers: Headers) -> None:
    """Adds headers to an answer that say what a browser may do with it."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Content-Security-Policy", DOCS_POLICY if path.startswith("/openapi/") else POLICY)
    if not path.startswith(OPEN_FOLDERS):
        headers.setdefault("Cache-Control", "no-store")
    if settings.origins:
        headers["Vary"] = ", ".join(filter(None, [headers.get("Vary"), "Origin"]))
    if origin in settings.origins:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE, OPTIONS"
        headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Last-Event-ID"
        headers["Access-Control-Expose-Headers"] = "Location, Retry-After"
        headers["Access-Control-Max-Age"] = "600"


def protect(app: Flask, settings: Settings) -> None:
    """Checks every call before it is answered, and adds the headers to every answer."""

    @app.before_request
    def check() -> Response | None:
        shown = request.headers.get("Authorization", "")
        refused = refusal(settings, request.method, request.path, host=request.host, authorization=shown)
        if refused is not None:
            raise refused
        return app.make_default_options_response() if request.method == "OPTIONS" else None

    @app.after_request
    def marked(response: Response) -> Response:
        mark(settings, request.path, request.headers.get("Origin"), response.headers)
        return response


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def _shows(token: str, authorization: str) -> bool:
    kind, _, shown = authorization.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())

"""Who may call: tokens, hosts, other sites' pages; and what a browser may do with an answer."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import Forbidden, Unauthorized

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


def protect(app: Flask, settings: Settings) -> None:
    """Checks every call before it is answered, and marks every answer."""

    @app.before_request
    def check() -> Response | None:
        # A page elsewhere can have a name of its own point at this machine; its calls then carry that name.
        if (
            settings.is_local
            and settings.token is None
            and urlsplit(f"//{request.host}").hostname not in (*LOCAL_NAMES, settings.host)
        ):
            raise Forbidden("this service answers on this machine only; call it as localhost.")
        if request.method == "OPTIONS":
            return app.make_default_options_response()
        if settings.token is not None and not _is_open(request.path) and not _shows(settings.token):
            raise Unauthorized("this service wants a token; send the header Authorization: Bearer <token>.")
        return None

    @app.after_request
    def mark(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        policy = DOCS_POLICY if request.path.startswith("/openapi/") else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        if not request.path.startswith(OPEN_FOLDERS):
            response.headers.setdefault("Cache-Control", "no-store")
        if settings.origins:
            response.vary.add("Origin")
        if request.headers.get("Origin") in settings.origins:
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE, OPTIONS"
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Last-Event-ID"
            response.headers["Access-Control-Expose-Headers"] = "Location, Retry-After"
            response.headers["Access-Control-Max-Age"] = "600"
        return response


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def _shows(token: str) -> bool:
    kind, _, shown = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())

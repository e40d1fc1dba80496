"""Calls the Flask app, a WSGI application, for a complete request."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Headers = list[tuple[bytes, bytes]]
# Headers about the transfer, which no longer apply to a complete body; its length is set anew.
OF_THE_SENDING = (b"content-length", b"transfer-encoding")


@dataclass(frozen=True)
class CompleteResponse:
    """An answer to send."""

    status: int
    headers: Headers
    body: bytes


def environ_of(scope: Mapping[str, Any], body: bytes, announced_bytes: int | None = None) -> dict[str, Any]:
    """Returns the WSGI environ of a request; ``announced_bytes`` is the length of a body too long to be read."""
    host, port = scope.get("server") or ("localhost", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "CONTENT_LENGTH": str(len(body) if announced_bytes is None else announced_bytes),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        if b"_" in name or name in OF_THE_SENDING:  # Content_Type would pass for Content-Type
            continue
        key = name.decode("latin-1").upper().replace("-", "_")
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    return environ


def answer_of(app: WSGIApplication, environ: dict[str, Any]) -> CompleteResponse:
    """Returns the app's complete answer."""
    began: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
        began.append((status, headers))
        return lambda _: None

    parts: Iterable[bytes] = app(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    status, headers = began[-1]
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return CompleteResponse(int(status.split()[0]), encoded, body)

"""Compresses answers for clients that accept it, and lets clients cache files."""

from __future__ import annotations

import gzip
from functools import lru_cache

from flask import Flask, Response, request

LEAST_BYTES = 1024
KINDS = ("text/", "application/json", "application/javascript", "image/svg+xml")
DOCUMENTS = "/openapi/"
KEPT_FILES = 64


def compress(app: Flask) -> None:
    """Compresses long answers."""

    @app.after_request
    def compressed(response: Response) -> Response:
        if response.direct_passthrough:
            _read_file(response)
        if response.is_streamed or response.status_code != 200:
            return response
        if request.path.startswith(DOCUMENTS):
            _let_keep(response)
        if response.status_code != 200 or not (response.mimetype or "").startswith(KINDS):
            return response
        response.vary.add("Accept-Encoding")
        content = response.get_data()
        if request.accept_encodings["gzip"] <= 0 or len(content) < LEAST_BYTES:
            return response
        etag, _ = response.get_etag()
        # An answer with a tag is a file, which is requested often, so its compressed form is cached.
        response.set_data(_of_file(content) if etag is not None else gzip.compress(content, 4))
        response.content_encoding = "gzip"
        if etag is not None:
            response.set_etag(etag, weak=True)  # the same file, but not the same bytes
        return response


def _read_file(response: Response) -> None:
    """Reads the content into memory and closes the file; the files are few and short."""
    file = response.response
    response.direct_passthrough = False
    response.set_data(b"".join(response.iter_encoded()))
    close = getattr(file, "close", None)
    if close is not None:
        close()


def _let_keep(response: Response) -> None:
    """Lets clients cache the documentation, but makes them revalidate it, since it changes with the version."""
    response.cache_control.no_cache = True
    if response.get_etag()[0] is None:
        response.add_etag()
    response.make_conditional(request)


@lru_cache(KEPT_FILES)
def _of_file(content: bytes) -> bytes:
    return gzip.compress(content, 9)

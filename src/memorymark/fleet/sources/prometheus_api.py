"""Asks a Prometheus server, or one that speaks its HTTP interface. Reads only; secrets stay out of what is said."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from memorymark.errors import MemoryMarkError, ServerError, UsageError
from memorymark.messages import Message

if TYPE_CHECKING:
    from urllib.request import Request

TIMEOUT_SECONDS = 60.0
LARGEST_ANSWER_BYTES = 2**30
# An answer: labels, and values by their time in whole seconds.
Series = tuple[dict[str, str], dict[int, float]]


class Prometheus:
    """A Prometheus server.

    A name and a password in the address are sent as basic authentication, else ``token`` as a bearer token. Neither is
    ever part of an error, and none is sent to another address: redirects are refused.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        parts = _parts(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        self.url = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
        self.warnings: list[str] = []
        self._timeout_seconds = timeout_seconds
        self._headers = {"Accept": "application/json", **_authorization(parts, token)}

    def over_time(self, query: str, *, start: int, end: int, step: int) -> list[Series]:
        """Returns the values of a query from ``start`` to ``end``, in seconds since 1970."""
        return self._series("query_range", {"query": query, "start": start, "end": end, "step": step})

    def at(self, query: str, when: int) -> list[Series]:
        """Returns the values of a query at one time."""
        return self._series("query", {"query": query, "time": when})

    def _series(self, call: str, asked: dict[str, Any]) -> list[Series]:
        try:
            answer = json.loads(self._read(f"{self.url}/api/v1/{call}?{urlencode(asked)}"))
            found = [
                (dict[str, str](one["metric"]), _numbers(one["values"] if "values" in one else [one["value"]]))
                for one in answer["data"]["result"]
            ]
            self.warnings += [str(one) for one in answer.get("warnings") or ()]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ServerError(
                Message("{url} does not answer as Prometheus does; check the address.", url=self.url)
            ) from None
        return found

    def _read(self, address: str) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, build_opener

        request = Request(address, headers=self._headers)  # noqa: S310 - the scheme was checked
        try:
            with build_opener(_no_redirects()).open(request, timeout=self._timeout_seconds) as response:
                body: bytes = response.read(LARGEST_ANSWER_BYTES + 1)
        except HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(2**16)) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ServerError(
                Message("no server answers at {url} ({why}); check the address.", url=self.url, why=str(reason))
            ) from None
        if len(body) > LARGEST_ANSWER_BYTES:
            raise ServerError(Message("{url} answers too much; ask for less time with {since}.", url=self.url))
        return body

    def _refused(self, status: int, body: bytes) -> MemoryMarkError:
        if status in (401, 403):
            return UsageError(
                Message(
                    "{url} wants a token or a password that is valid; status {status}.", url=self.url, status=status
                ),
                code="unauthorized",
                field="prometheus",
            )
        if 300 <= status < 400:
            return ServerError(
                Message("{url} leads to another address; give that one (status {status}).", url=self.url, status=status)
            )
        try:
            said = str(json.loads(body)["error"])
        except (ValueError, LookupError, TypeError, RecursionError):
            said = ""
        if said:
            return ServerError(
                Message("{url} could not answer; ask for less time with {since}", url=self.url), detail=said
            )
        return ServerError(
            Message("{url} answered with status {status}; check the address.", url=self.url, status=status)
        )


def _no_redirects() -> Any:
    from urllib.request import HTTPRedirectHandler

    class NoRedirects(HTTPRedirectHandler):
        """Another address would get the token."""

        def redirect_request(self, *_: Any, **__: Any) -> Request | None:
            return None

    return NoRedirects


def _parts(url: str) -> SplitResult:
    """Parses the address; an error does not repeat it, since it may hold a password."""
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_plain = not parts.query and not parts.fragment and not re.search(r"[\s\x00-\x1f]", url)
    except ValueError:
        is_address = is_plain = False
    if not is_address or not is_plain:
        raise UsageError(
            Message("{prometheus} takes the address of a Prometheus server, such as http://prometheus:9090."),
            code="malformed",
            field="prometheus",
        )
    return parts


def _authorization(parts: SplitResult, token: str | None) -> dict[str, str]:
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
    if not token:
        return {}
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError(
            "the token for Prometheus has spaces or characters that cannot be sent; check it.",
            code="malformed",
            field="token",
        )
    return {"Authorization": f"Bearer {token}"}


def _numbers(values: list[list[Any]]) -> dict[int, float]:
    numbers = {round(float(when)): float(value) for when, value in values}
    return {when: value for when, value in numbers.items() if value == value}  # without NaN

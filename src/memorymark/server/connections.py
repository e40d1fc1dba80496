"""Limits the number of connections and how long a request may take to arrive, and ends connections that stall."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from memorymark.errors import Code, UsageError

# How long a request may take to arrive, from its first byte or the end of the previous answer.
REQUEST_SECONDS = 20.0
MOST_CONNECTIONS = 4096
LARGEST_HEADERS_BYTES = 64 * 1024
# A disconnected peer sends nothing; one that acknowledges nothing for this long is considered gone.
SILENCE_SECONDS = 20


def _refusal(sentence: str, code: Code) -> dict[str, Any]:
    return {"status": "error", **UsageError(sentence, code=code).to_dict("http")}


TOO_SLOW = _refusal("the request took too long to arrive; send it again.", "malformed")
NO_HTTP = _refusal("this is not an HTTP request; send one such as GET / HTTP/1.1.", "malformed")
TOO_LONG = _refusal("the headers of the request are too long; send shorter ones.", "out_of_range")
REFUSAL = (
    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n"
)


class Connections:
    """The open connections, and those that owe a request: idle ones, and those that have sent only a part of one.

    If there is no room for a new connection, the one that has owed a request for longest is closed.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, request_seconds: float = REQUEST_SECONDS) -> None:
        self.most, self.request_seconds = most, request_seconds
        self.open: set[Connection] = set()
        self.owing: dict[Connection, None] = {}  # a dict keeps their order

    def protocol(self, **details: Any) -> Connection:
        """Makes a connection that is counted here; uvicorn calls this for each one."""
        return Connection(self, **details)

    def make_room(self) -> bool:
        """Makes room for one more connection, if possible; returns whether there is room."""
        if len(self.open) < self.most:
            return True
        oldest = next(iter(self.owing), None)
        if oldest is not None:
            oldest.abort()
        return oldest is not None


class Connection(HttpToolsProtocol):
    """A connection. It never stops reading while a call is answered, so that it always notices a hang-up."""

    def __init__(self, connections: Connections, **details: Any) -> None:
        super().__init__(**details)
        self._all = connections
        self._cycles: list[RequestResponseCycle] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0
        self._has_begun = False
        self._is_reading_headers = True
        # Bytes received since the start of the request or the last byte of its body: headers or trailers.
        self._header_bytes = 0
        self._early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts the connection, or closes it if there is no room."""
        is_welcome = self._all.make_room()
        super().connection_made(transport)
        if not is_welcome:
            transport.abort()
            return
        _notice_silence(transport.get_extra_info("socket"))
        self._all.open.add(self)
        self._owe()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cleans up after the connection has ended."""
        self._all.open.discard(self)
        self._pay()
        for cycle in self._cycles:  # a client may send several calls ahead
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Ends the connection without sending what is left to send."""
        self._all.open.discard(self)
        self._pay()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Takes received data; keeps data that arrives early until the current call is answered."""
        is_busy = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if is_busy or self.pipeline or self._early:
            self._early += data
            if len(self._early) > LARGEST_HEADERS_BYTES:
                self.abort()
            return
        self._has_begun = True
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > LARGEST_HEADERS_BYTES and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large", TOO_LONG)

    def on_message_begin(self) -> None:
        """Called at the first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {"memorymark": {"abort": self.abort}}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; drops trailers, which come after the body."""
        if self._is_reading_headers:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body."""
        self._header_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Called when the headers are complete."""
        self._is_reading_headers, self._header_bytes = False, 0
        super().on_headers_complete()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete] + [self.cycle]
        if self.pipeline:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        """Called when the request is complete."""
        super().on_message_complete()
        self._is_reading_headers, self._header_bytes, self._has_begun = True, 0, False
        self._pay()
        if self.cycle.response_complete:  # it was rejected before its body arrived
            self._owe()

    def on_response_complete(self) -> None:
        """Called when a request is answered; waits for the next one."""
        super().on_response_complete()
        waiting = next((cycle for cycle in self._cycles if not cycle.response_complete), None)
        if waiting is None or (waiting is self.cycle and waiting.more_body):
            self._owe()
            self.loop.call_soon(self._take_early)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Answers data that is not HTTP."""
        self._refuse(b"400 Bad Request", NO_HTTP)

    def shutdown(self) -> None:
        """Shuts down: sends the answers that are under way and closes all other connections."""
        super().shutdown()
        if self in self._all.owing:
            self.abort()

    def _take_early(self) -> None:
        early, self._early = self._early, b""
        if early and not self.transport.is_closing():
            self.data_received(early)

    def _owe(self) -> None:
        self._pay()
        self._all.owing[self] = None
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(self._all.request_seconds, self._on_deadline)

    def _pay(self) -> None:
        self._all.owing.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent_bytes:  # the client is still reading the last answer, slowly
            self._owe()
        elif unsent or not self._has_begun or self.transport.is_closing():
            self.abort()
        else:
            self._refuse(b"408 Request Timeout", TOO_SLOW)

    def _refuse(self, status: bytes, document: dict[str, str]) -> None:
        is_begun = any(cycle.response_started and not cycle.response_complete for cycle in self._cycles)
        if not is_begun:
            body = json.dumps(document).encode()
            self.transport.write(REFUSAL % (status, len(body)) + body)
        self.transport.close()
        self.loop.call_later(1.0, self.abort)


def _notice_silence(connection: socket.socket) -> None:
    """Makes the kernel end a connection whose peer has vanished."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": SILENCE_SECONDS // 2, "TCP_KEEPINTVL": SILENCE_SECONDS // 4, "TCP_KEEPCNT": 2}
    for name, value in {**options, "TCP_USER_TIMEOUT": 1000 * SILENCE_SECONDS}.items():
        if hasattr(socket, name):  # not every system has them all
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""The HTTP server: uvicorn with our connections, in its own thread."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
import threading
import time
from typing import Any, cast

import uvicorn
import uvloop

from memorymark.errors import MemoryMarkError
from memorymark.server.connections import MOST_CONNECTIONS, Connections
from memorymark.server.front import Front

BACKLOG = 1024
KEEP_ALIVE_SECONDS = 15
SWITCH_SECONDS = 0.0005
LOOK_UP_SECONDS = 0.01
# How long a stopping server waits for its last answers to be sent.
FLUSH_SECONDS = 3
STOP_SECONDS = 10.0


class HttpServer:
    """Answers calls on a listening socket, as soon as it is created."""

    def __init__(self, front: Front, listening: socket.socket, connections: Connections | None = None) -> None:
        self._front = front
        self.port = int(listening.getsockname()[1])
        self._server = uvicorn.Server(
            uvicorn.Config(
                cast("Any", front),
                http=cast("Any", (connections or Connections(most_connections())).protocol),
                interface="asgi3",
                ws="none",
                lifespan="off",
                backlog=BACKLOG,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=FLUSH_SECONDS,
            )
        )
        # The thread that answers /health must get its turn soon, whatever the others compute.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self._thread = threading.Thread(target=self._run, args=[listening], name="http", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(LOOK_UP_SECONDS)
        if not self._server.started:
            raise MemoryMarkError("the server could not start to listen; its log says why.")

    def stop(self) -> None:
        """Accepts no more calls, sends the answers under way, and ends."""
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._front.close()

    def _run(self, listening: socket.socket) -> None:
        async def answer() -> None:
            asyncio.get_running_loop().set_default_executor(self._front.reading)
            await self._server.serve(sockets=[listening])

        uvloop.run(answer())


def most_connections() -> int:
    """Returns how many connections the limit of open files allows, with room for workers and the history."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MOST_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)

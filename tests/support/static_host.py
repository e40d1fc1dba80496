"""A host of static files, with the headers that web/vercel.json asks for."""

import json
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"
HEADERS = json.loads((WEB / "vercel.json").read_text())["headers"]


class _Handler(SimpleHTTPRequestHandler):
    def end_headers(self):
        for rule in HEADERS:
            if re.fullmatch(rule["source"], self.path):
                for header in rule["headers"]:
                    self.send_header(header["key"], header["value"])
        super().end_headers()

    def log_message(self, *_):
        """Says nothing."""


class StaticHost:
    """Serves the files of a folder while it is entered."""

    def __init__(self, folder):
        self.folder = folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""nginx with the project's own configuration in front of a service, with a certificate made for it."""

import re
import ssl
import subprocess
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

from support.calls import Caller
from support.processes import PATIENCE_SECONDS
from support.servers import free_port, moved, program, started

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "memorymark.conf"
CERTIFICATES = "/etc/letsencrypt/live/memorymark.example.org"
# What Debian's nginx.conf sets around the files of sites-enabled, as far as it matters here. It compresses.
AROUND = """
user root;
pid {folder}/pid;
error_log stderr;
daemon off;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    gzip on;
    gzip_types application/json text/event-stream text/javascript;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/memorymark.conf;
}}
"""


class SecureCaller(Caller):
    """Calls through the proxy, whose certificate nobody vouches for."""

    def __init__(self, port, plain_port, **headers):
        super().__init__(port, **headers)
        self.plain_port = plain_port

    @property
    def address(self):
        return f"https://localhost:{self.port}"

    def connect(self):
        return HTTPSConnection("localhost", self.port, timeout=PATIENCE_SECONDS, context=trusting())


def trusting():
    """A context for TLS that believes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def behind_nginx(service_port, folder, **headers):
    """A caller of the service through nginx."""
    binary = program("nginx", "nginx")
    port, plain_port = free_port(), free_port()
    make_certificate(folder)
    places = {
        r"listen \[::\]:\d+.*;\n": "",  # there may be no IPv6 here
        r"listen 80;": f"listen 127.0.0.1:{plain_port};",
        r"listen 443 ": f"listen 127.0.0.1:{port} ",
        re.escape(CERTIFICATES): str(folder),
        r"server 127\.0\.0\.1:5001;": f"server 127.0.0.1:{service_port};",
    }
    (folder / "memorymark.conf").write_text(moved(CONFIGURATION.read_text(), places))
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder))
    command = [binary, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    with started(command, port, folder / "log"):
        yield SecureCaller(port, plain_port, **headers)


def make_certificate(folder):
    command = """openssl req -x509 -nodes -days 1 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
                 -subj /CN=localhost -keyout privkey.pem -out fullchain.pem""".split()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)

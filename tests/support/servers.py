"""Servers of others that tests start: how they are found, given a port and ended."""

import os
import re
import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest

from support.processes import PATIENCE_SECONDS, wait_until


def program(name, package):
    """The path of a program of a Debian package; where it is not installed, the test is skipped."""
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
    if found is None:
        pytest.skip(f"there is no {name} here; `apt-get install {package}` gets it")
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def moved(text, places):
    """A configuration in which ports and paths are those of a test; each must have been there."""
    for pattern, instead in places.items():
        text, count = re.subn(pattern, instead, text)
        assert count, f"{pattern} is not in the configuration"
    return text


@contextmanager
def started(command, port, log):
    """Runs a server until the end, once it listens on its port."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def listens():
        assert process.poll() is None, log.read_text()
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens)
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)

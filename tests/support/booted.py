"""A real systemd, booted in a container with the /usr of this machine and nothing else of it."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes import PATIENCE_SECONDS, wait_until
from support.servers import program


class Booted:
    """A running container; its programs are called as if on that host."""

    def __init__(self, init):
        self._enter = ["nsenter", f"--target={init}", "--mount", "--pid", "--uts", "--ipc", "--"]

    def __call__(self, *command):
        done = subprocess.run([*self._enter, *command], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def shown(self, unit, name):
        """A property of a unit."""
        return self("systemctl", "show", "--value", f"--property={name}", unit)


@contextmanager
def booted(unit, files, log):
    """Boots up to a unit, with files and folders of ours at other paths; the network is this machine's."""
    binary = program("systemd-nspawn", "systemd-container")
    if os.geteuid() != 0:
        pytest.skip("only root can boot a systemd")
    options = ["--register=no", "--keep-unit", "--link-journal=no", "--console=pipe", "--directory=/", "--volatile=yes"]
    # A host would not filter these; the container does.
    options.append("--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self")
    binds = [f"--bind-ro={source}:{target}" for target, source in files.items()]
    command = [binary, *options, *binds, "--boot", f"systemd.unit={unit}"]
    with log.open("w") as file:
        nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    try:

        def runs():
            if nspawn.poll() is not None:
                pytest.skip(f"systemd cannot be booted here: {log.read_text().strip()}")
            host = Booted(children.read_text().split()[-1]) if children.read_text() else None
            return host if host and host.shown(unit, "LoadState") == "loaded" else None

        yield wait_until(runs)
    finally:
        nspawn.terminate()
        nspawn.wait(PATIENCE_SECONDS)

"""Ensures that building a model from a config opens no file, starts no process and reaches no network.

The fields of a config are checked before; this guards against what those checks miss. Python calls an audit hook before
each of these operations, whichever library makes them. A hook cannot be removed, so it stays and checks a flag.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from memorymark.errors import UsageError

# Refused with any arguments.
REFUSED = (
    *("socket.", "subprocess.", "ftplib.", "http.", "urllib.", "smtplib.", "webbrowser.", "shutil.", "sqlite3."),
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile", "os.truncate"),
    *("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "pty."),
)
# Their first argument is a path. Imports use them too, so they are allowed inside library folders.
OPENING = ("open", "os.listdir", "os.scandir", "ctypes.dlopen")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_state = threading.local()
# A worker builds one model at a time, so there the guard covers the libraries' threads too.
_whole_process = {"is_meant": False, "is_on": False}


def guard_every_thread() -> None:
    """Extends the guard to all threads of this process; for workers, which run no other work."""
    _whole_process["is_meant"] = True


@contextmanager
def only_building() -> Iterator[None]:
    """Lets this thread, or any thread of a worker, open nothing but libraries inside the context."""
    _install()
    before, writes_bytecode = getattr(_state, "is_on", False), sys.dont_write_bytecode
    _state.is_on, sys.dont_write_bytecode = True, True
    _whole_process["is_on"] = _whole_process["is_meant"]
    try:
        yield
    finally:
        _state.is_on, sys.dont_write_bytecode = before, writes_bytecode
        _whole_process["is_on"] = before and _whole_process["is_meant"]


@cache
def _install() -> None:
    roots = tuple(os.path.realpath(path) + os.sep for path in _library_paths())

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if not _whole_process["is_on"] and not getattr(_state, "is_on", False):
            return
        if event.startswith(REFUSED) or (event in OPENING and not _is_of_a_library(event, arguments, roots)):
            raise UsageError(
                "the config makes a library open a file or use the network, which is not allowed; pass one without "
                "names of files and other models.",
                code="bad_config",
                field="config",
                detail=f"{event} {arguments[:1]}",
            )

    sys.addaudithook(refuse)


def _library_paths() -> set[str]:
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return {path for path in (*installed, *sys.path, sys.prefix, sys.base_prefix) if path}


def _is_of_a_library(event: str, arguments: tuple[Any, ...], roots: tuple[str, ...]) -> bool:
    path = arguments[0] if arguments else None
    if path is None or isinstance(path, int):  # this process itself, or an open file
        return True
    if event == "open" and len(arguments) > 2 and isinstance(arguments[2], int) and arguments[2] & WRITING:
        return False
    name = os.fsdecode(path)
    if event == "ctypes.dlopen" and os.sep not in name:  # the system's loader finds it
        return True
    # realpath resolves links that lead out of a library's folder.
    return os.path.realpath(name).startswith(roots)

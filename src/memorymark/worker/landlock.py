"""Landlock: a Linux process gives up access to files and TCP for good (kernel 5.13 or later)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_FOR_VERSION = 1
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
READING = EXECUTE | READ_FILE | READ_DIR
# The file rights that Landlock can restrict, by the version that added some.
RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_SINCE, ALL_OF_TCP = 4, 3
SCOPES_SINCE, SIGNALS_AND_ABSTRACT_SOCKETS = 6, 3

_PINNED: list[int] = []  # open descriptors of the /proc entries that rules refer to, which keep these entries alive


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # newer versions of Python want the layout stated for packed structures
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Returns this kernel's Landlock version, or 0 if it has none."""
    return max(0, _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ASK_FOR_VERSION)))


def restrict(*, read: Iterable[str], write: Iterable[str]) -> int:
    """Restricts this process and its children to these paths and forbids TCP; returns the Landlock version.

    Call it before any threads start, and after ``PR_SET_NO_NEW_PRIVS``. Raises ``OSError`` if the kernel lacks support.
    """
    here = version()
    if here == 0:
        raise OSError("this kernel has no Landlock")
    rights = max(all_rights for since, all_rights in RIGHTS_BY_VERSION.items() if since <= here)
    rules = _Ruleset(
        rights, ALL_OF_TCP if here >= TCP_SINCE else 0, SIGNALS_AND_ABSTRACT_SOCKETS if here >= SCOPES_SINCE else 0
    )
    size = 8 if here < TCP_SINCE else 16 if here < SCOPES_SINCE else 24
    ruleset = _checked(_syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0)))
    try:
        for paths, allowed in ((read, READING), (write, rights)):
            for path in dict.fromkeys(paths):
                _allow(ruleset, path, allowed & rights)
        _checked(_syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)
    return here


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # no such path, so nothing to allow
        return
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        rights &= OF_FILES
    rule = _PathBeneath(rights, parent)
    _checked(
        _syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    )
    if path.startswith("/proc/"):
        _PINNED.append(parent)
    else:
        os.close(parent)


def _syscall(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

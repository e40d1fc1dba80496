"""Limits what a worker may use: no secrets in its environment, its own home, limited memory, few files, no network.

The parent describes the limits as a ``Confinement``. ``confine`` enforces them in the worker before it imports anything
else; ``in_force`` then says which ones the kernel supports. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import site
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.worker import landlock

# The exit code of a worker that exceeded its memory limit.
TOO_MUCH_MEMORY_EXIT = 86
LOOK_AT_MEMORY_SECONDS = 0.1
HOME_PREFIX = "memorymark-worker-"

PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|CC|CXX|LD_LIBRARY_PATH|LD_PRELOAD|VIRTUAL_ENV|HIP_VISIBLE_DEVICES"
    r"|PYTHON(PATH|HOME|HASHSEED|UTF8|IOENCODING|DONTWRITEBYTECODE|MALLOC|WARNINGS|FAULTHANDLER)"
    r"|(CUDA|NVIDIA|CUBLAS|CUDNN|OMP|GOMP|KMP|MKL|OPENBLAS|ONEDNN|DNNL|ATEN|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|MALLOC)_\w+"
)
# Also passed on to a worker that fetches from Hugging Face or runs code that the operator allows.
PASSED_ON_TO_REACH_OUT = re.compile(
    r"HOME|USER|LOGNAME|TMPDIR|XDG_\w+|HF_\w+|TRANSFORMERS_\w+|SSL_CERT_\w+|(REQUESTS|CURL)_CA_BUNDLE"
    r"|(?i:https?_proxy|all_proxy|no_proxy)"
)
SECRET = re.compile(r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY")
# Paths that Python, torch and GPU drivers read. Missing ones are skipped.
READ = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/sys", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/ld.so.conf.d", "/etc/localtime", "/etc/alternatives", "/etc/nvidia", "/dev/urandom", "/dev/random"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/devices"),
    *("/proc/modules", "/proc/driver", "/proc/sys/kernel", "/proc/sys/vm", "/nix/store"),
    *("/opt/nvidia", "/opt/rocm", "/run/nvidia-persistenced"),
)
WRITE = ("/dev/null", "/dev/zero", "/dev/shm", "/dev/dri", "/dev/kfd", "/proc/self")  # noqa: S108 - shared memory
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_NO_NEW_PRIVS = 38
CAPABILITIES_VERSION_3 = 0x20080522


@dataclass(frozen=True)
class Confinement:
    """The limits of a worker.

    A ``sealed`` worker gets an empty home, no network and only the files that it needs. Any other may use the network
    and files, but sees none of the operator's secrets in its environment. ``on_gpu`` says that CUDA runs in it; an
    address space limit would break CUDA, so its memory is watched instead.
    """

    sealed: bool = True
    memory_bytes: int | None = None
    on_gpu: bool = False

    def environment(self, home: str) -> dict[str, str]:
        """Returns the worker's environment: only variables known to be needed, and no secrets."""
        is_passed_on = (
            PASSED_ON.fullmatch
            if self.sealed
            else lambda name: PASSED_ON.fullmatch(name) or PASSED_ON_TO_REACH_OUT.fullmatch(name)
        )
        kept = {name: value for name, value in os.environ.items() if is_passed_on(name) and not SECRET.search(name)}
        # Without the operator's login: callers must not see the operator's private models.
        kept |= {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN_PATH": f"{home}/none", "HF_HUB_DISABLE_TELEMETRY": "1"}
        if self.sealed:
            kept["PYTHONUSERBASE"] = site.getuserbase()  # packages may be there, and Python looks for it in the home
            kept |= {"HOME": home, "TMPDIR": home, "USER": "memorymark", "LOGNAME": "memorymark"}
            kept |= {"HF_HOME": f"{home}/huggingface", "HF_HUB_OFFLINE": "1", "TORCH_HOME": f"{home}/torch"}
            kept |= {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        return kept

    def to_argument(self, home: str) -> str:
        """Returns the argument for ``confine``, as one word of a command line."""
        return json.dumps({**asdict(self), "home": home})


def make_home() -> str:
    """Creates an empty folder that is removed with the worker."""
    _remove_homes_left_behind()
    return tempfile.mkdtemp(prefix=f"{HOME_PREFIX}{os.getpid()}-")


@cache
def _remove_homes_left_behind() -> None:
    """Removes, once per process, the homes that killed services left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}*-*"):
        pid = folder.name.removeprefix(HOME_PREFIX).partition("-")[0]
        with suppress(OSError, OverflowError, ValueError):
            if pid.isdigit() and folder.lstat().st_uid == os.getuid() and not _is_running(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def confine(argument: str) -> None:
    """Confines this process for good; ``in_force`` says which limits hold."""
    wanted = json.loads(argument)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _IN_FORCE["environment"] = "cleaned"
    if sys.platform == "linux":
        _IN_FORCE["new_privileges"] = "none" if _prctl(PR_SET_NO_NEW_PRIVS, 1) else "possible"
    if wanted["sealed"]:  # before any threads start: running ones would stay unconfined
        _IN_FORCE["network"] = "none" if _leave_network() else "in reach"
        _IN_FORCE["files"] = _close_files(wanted["home"])
        _drop_capabilities()
    if wanted["memory_bytes"] is not None:
        _IN_FORCE["memory_bytes"] = wanted["memory_bytes"]
        _limit_memory(wanted["memory_bytes"], on_gpu=wanted["on_gpu"])


_IN_FORCE: dict[str, Any] = {}
# What ``in_force`` says about files if the kernel cannot restrict them.
UNRESTRICTED = "not restricted"


def in_force() -> dict[str, Any]:
    """Returns the limits that hold for this process; empty if it is not confined."""
    return dict(_IN_FORCE)


def shortcomings(holds: Mapping[str, Any]) -> list[str]:
    """Describes what a sealed worker can do although it should not."""
    missing = []
    if holds.get("network") != "none":
        missing.append("the network can be reached")
    if holds.get("files", UNRESTRICTED) == UNRESTRICTED:
        missing.append("files can be read")
    return missing


def memory_limit_bytes() -> int | None:
    """Returns how much memory this process may use; ``None`` if there is no limit."""
    limit: int | None = _IN_FORCE.get("memory_bytes")
    return limit


def _limit_memory(most_bytes: int, *, on_gpu: bool) -> None:
    if not on_gpu and sys.platform == "linux":  # other systems ignore it
        # A tenth above the watch's limit, so that slow growth is ended by the watch, which gives a clear reason.
        hard = most_bytes + most_bytes // 10
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    threading.Thread(target=_watch_memory, args=[most_bytes], daemon=True).start()


def _watch_memory(most_bytes: int) -> None:
    page = resource.getpagesize()
    try:
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            while True:
                file.seek(0)
                if int(file.read().split()[1]) * page > most_bytes:
                    os._exit(TOO_MUCH_MEMORY_EXIT)
                time.sleep(LOOK_AT_MEMORY_SECONDS)
    except OSError:  # no /proc: the address space limit has to do
        return


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    return bool(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def _leave_network() -> bool:
    """Moves this process to an empty network namespace; without privileges that needs a user namespace too."""
    if sys.platform != "linux":
        return False
    if _libc().unshare(CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    return True


def _close_files(home: str) -> str:
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if Path(path).is_absolute())]
    gpus = [str(path) for path in Path("/dev").glob("nvidia*")]
    try:
        version = landlock.restrict(read=[*READ, *python], write=[*WRITE, *gpus, home])
    except OSError:
        return UNRESTRICTED
    return f"landlock {version}"


def _drop_capabilities() -> None:
    """Drops all capabilities: a worker started by root may read root's files but has none of root's powers."""
    if sys.platform == "linux":
        header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
        _libc().capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))

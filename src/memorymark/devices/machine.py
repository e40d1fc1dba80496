"""Describes this machine and the versions on it, without importing torch."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from memorymark.catalog import match_gpu
from memorymark.devices import nvml
from memorymark.documents import Document
from memorymark.units import KIB
from memorymark.version import __version__


@cache
def versions() -> dict[str, str]:
    """Returns the versions that a result depends on."""
    return {"memorymark": __version__, "torch": _installed("torch"), "transformers": _installed("transformers")}


@cache
def foundation() -> dict[str, str]:
    """Returns what else a result depends on: Python, other packages that build or train models, and MemoryMark's files.

    The files count, not only a version, so that a changed MemoryMark never returns an answer of its older code.
    """
    packages = {name: _installed(name) for name in ("timm", "peft", "bitsandbytes", "accelerate")}
    return {"python": platform.python_version(), **packages, "source": fingerprint(Path(__file__).parents[1])}


def fingerprint(package: Path) -> str:
    """Returns a hash of a package's files, without compiled Python and the built dashboard."""
    found = hashlib.sha256()
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "dashboard"))
        for name in sorted(files):
            content = (Path(folder) / name).read_bytes()
            found.update(f"{folder.removeprefix(str(package))}/{name} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Machine(Document):
    """A host, its processors and its GPUs."""

    host: str
    """Its name on the network; empty in recordings."""
    system: str
    """Its operating system and architecture."""
    python: str
    """The version of Python."""
    processors: int
    """How many processors it has."""
    gpus: list[str]
    """The names of its GPUs."""
    driver: str | None
    """The version of the GPUs' driver; null if there is none."""


@cache
def describe_machine() -> dict[str, Any]:
    """Returns this machine as JSON types."""
    machine = Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        processors=os.cpu_count() or 1,
        gpus=[state.name for state in nvml.gpus()],
        driver=next((state.driver_version for state in nvml.gpus()), None),
    )
    return machine.to_dict()


@cache
def host_memory_bytes() -> int:
    """Returns the memory of the host, or of the container that this runs in."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            has = min(has, int(Path(file).read_text(encoding="ascii")))
    return has


def available_host_bytes() -> int:
    """Returns how much of the host's memory, or of the container's, programs can still take."""
    free = host_memory_bytes()
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = min(free, int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * KIB)
    with suppress(OSError, ValueError):
        free = min(free, host_memory_bytes() - int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")))
    return max(free, 0)


def lacks_accelerator() -> bool:
    """Tells whether torch certainly finds no GPU here; False if it may find one that the driver does not list."""
    is_for_others = any(kind in _installed("torch") for kind in ("rocm", "xpu"))
    return not nvml.gpus() and platform.system() != "Darwin" and not is_for_others


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def gpus_here() -> set[str]:
    """Returns the catalog ids of this machine's GPUs."""
    return {entry.id for state in nvml.gpus() if (entry := match_gpu(state.name, state.total_bytes))}

"""Which machine this is and which versions run on it, told without importing torch."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from memorymark.catalog import match_gpu
from memorymark.devices import nvml
from memorymark.version import __version__


@cache
def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {"memorymark": __version__, "torch": _installed("torch"), "transformers": _installed("transformers")}


@cache
def foundation() -> dict[str, str]:
    """What else a result rests on: Python, the other packages that build or train models, and MemoryMark's own files.

    With the files themselves and not only a version, whoever changes MemoryMark gets no answer of the code before.
    """
    packages = {name: _installed(name) for name in ("timm", "peft", "bitsandbytes", "accelerate")}
    return {"python": platform.python_version(), **packages, "source": _fingerprint(Path(__file__).parent)}


def _fingerprint(package: Path) -> str:
    found = hashlib.sha256()
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "dashboard"))
        for name in sorted(files):
            content = (Path(folder) / name).read_bytes()
            found.update(f"{folder.removeprefix(str(package))}/{name} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


@cache
def describe_machine() -> dict[str, Any]:
    """The host, its processors and its GPUs."""
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "processors": os.cpu_count() or 1,
        "gpus": [state.name for state in nvml.gpus()],
        "driver": next((state.driver_version for state in nvml.gpus()), None),
    }


@cache
def host_memory_bytes() -> int:
    """The memory of the host, or of the container that this runs in."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            has = min(has, int(Path(file).read_text(encoding="ascii")))
    return has


def lacks_accelerator() -> bool:
    """Whether torch surely finds no GPU here; where it may find one that the driver's library does not list, no."""
    is_for_others = any(kind in _installed("torch") for kind in ("rocm", "xpu"))
    return not nvml.gpus() and platform.system() != "Darwin" and not is_for_others


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def gpus_here() -> set[str]:
    """The ids of the catalog's GPUs that this machine has."""
    return {entry.id for state in nvml.gpus() if (entry := match_gpu(state.name))}

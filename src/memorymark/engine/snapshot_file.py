"""Writes a snapshot of the allocator as a file for PyTorch's memory viewer."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.results.probe_info import ProbeInfo


def require_folder(path: Path) -> None:
    """Raises if the file cannot be there, before anything is computed for it."""
    if not path.absolute().parent.is_dir():
        raise _not_writable(path, "there is no such folder")


def require_history(info: ProbeInfo) -> None:
    """Raises if torch takes no snapshots of the device, before a step runs on it."""
    if info.source == "measured" and info.device_kind != "cuda":
        raise UsageError(
            Message("{snapshot} needs the history of a CUDA GPU's allocator, or a prediction; name one with {gpu}."),
            code="not_applicable",
            field="snapshot",
        )


def write_snapshot(path: Path, snapshot: dict[str, Any]) -> None:
    """Writes the file that https://pytorch.org/memory_viz and ``torch.cuda._memory_viz`` read."""
    try:
        with path.open("wb") as file:
            pickle.dump(snapshot, file)
    except OSError as error:
        raise _not_writable(path, error.strerror or str(error)) from None


def _not_writable(path: Path, why: str) -> UsageError:
    return UsageError(
        Message("{file} cannot be written: {why}; name another file with {snapshot}.", file=path, why=why),
        code="not_writable",
        field="snapshot",
        given=path,
    )

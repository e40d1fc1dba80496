"""Traces of training steps, kept on disk between questions that share them. No torch.

They are in a folder that only the user can write to, as compressed JSON, which cannot run code. If anything is wrong
with the folder or a file, the step is traced again.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorymark.units import MIB

VARIABLE = "MEMORYMARK_CACHE"
OFF = "off"
# Above this size, the least recently used traces are removed.
LIMIT_BYTES = 256 * MIB
SUFFIX = ".trace"
# Fast, and a tenth of the size.
COMPRESSION = 1


def default_folder() -> Path | None:
    """Returns where traces are kept: the environment's setting, or the user's cache; ``None`` if they are not."""
    given = os.environ.get(VARIABLE, "")
    if given.lower() == OFF:
        return None
    if given:
        return Path(given).expanduser() / "traces"
    from platformdirs import user_cache_path

    return user_cache_path("memorymark") / "traces"


@dataclass(frozen=True)
class KeptTraces:
    """The folder and its size limit."""

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def find(self, key: str) -> Any:
        """Returns the document under a key and marks it as used; ``None`` if there is none."""
        file = self._file(key)
        try:
            if not self._is_private():
                return None
            document = json.loads(zlib.decompress(_read_own(file)))
            os.utime(file)
        except OSError:
            return None
        except (ValueError, zlib.error, RecursionError, MemoryError):
            self.drop(key)
            return None
        return document

    def keep(self, key: str, document: Any) -> None:
        """Writes a document atomically, and removes old ones past the limit."""
        content = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), COMPRESSION)
        if len(content) > self.limit_bytes:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private():
                self._write(self._file(key), content)
                self._remove_the_oldest()

    def drop(self, key: str) -> None:
        """Removes a document."""
        with suppress(OSError):
            self._file(key).unlink()

    @property
    def size_bytes(self) -> int:
        """The size of all documents."""
        return sum(size for _, size, _ in self._files())

    @property
    def count(self) -> int:
        """The number of documents."""
        return sum(1 for _ in self._files())

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _is_private(self) -> bool:
        """Tells whether the folder belongs to the user and only they can write to it."""
        found = os.lstat(self.folder)
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        return is_own and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def _write(self, file: Path, content: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as part:
                part.write(content)
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def _remove_the_oldest(self) -> None:
        files = sorted(self._files(), reverse=True)  # the last used first
        total = 0
        for _, size, file in files:
            total += size
            if total > self.limit_bytes:
                with suppress(OSError):
                    file.unlink()

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yields each file with its last use and its size, including half-written ones."""
        try:
            files = [file for file in self.folder.iterdir() if file.suffix in (SUFFIX, ".part")]
        except OSError:
            return
        for file in files:
            with suppress(OSError):
                found = file.lstat()
                yield found.st_mtime, found.st_size, file


def _read_own(file: Path) -> bytes:
    """Returns the content of a file that belongs to the user; raises for anyone else's without reading it."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as opened:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
            raise PermissionError(f"{file} belongs to another user")
        return opened.read()

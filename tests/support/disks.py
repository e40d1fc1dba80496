"""Disks of our own that tests can fill and make read-only."""

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk():
    """A file system of 8 MiB.

    Not in pytest's own folder: where the tests are killed it stays, and the next run could not clear its folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="memorymark-small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "memorymark-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    try:
        if mounted.returncode:
            pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


@contextmanager
def filled(disk):
    """No byte is free on the disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(disk):
    """Nothing on the disk can be changed."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)

"""The archives that a release publishes, built from the files here without a network."""

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(folder, *targets, source=ROOT):
    """Builds ``wheel`` or ``sdist``, or both, into a folder; returns their paths in the order of the targets."""
    chosen = [part for target in targets for part in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder, *chosen]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ends = {"wheel": "*.whl", "sdist": "*.tar.gz"}
    return [next(Path(folder).glob(ends[target])) for target in targets]


def in_wheel(wheel):
    """The files of a wheel: their names and contents."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def in_sdist(sdist):
    """The files of a source archive: their names, without the folder that all lie in, and contents."""
    with tarfile.open(sdist) as archive:
        files = [member for member in archive if member.isfile()]
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in files}


def metadata(files):
    """The metadata among the files of a wheel; its payload is what a package index shows."""
    return message_from_bytes(next(text for name, text in files.items() if name.endswith(".dist-info/METADATA")))

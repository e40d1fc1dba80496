"""Tells whether the committed dashboard was built from the sources that are here.

The digest is SHA-256 over one line for each source file, ``<SHA-256 of the file> <path in web/, with />\\n``, in the
order of the paths. The build writes it to ``build.json`` with scripts/source-digest.mjs, which does the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

WEB = Path(__file__).parent.parent
BUILD = WEB.parent / "src" / "memorymark" / "server" / "dashboard" / "build.json"
FOLDER = "src"
FILES = ("index.html", "openapi.json", "package-lock.json", "vite.config.ts")


def source_digest(web: Path = WEB) -> str:
    """The digest of all that the build is made from."""
    paths = [web / name for name in FILES] + [path for path in (web / FOLDER).rglob("*") if path.is_file()]
    names = sorted(path.relative_to(web).as_posix() for path in paths)
    lines = [f"{hashlib.sha256((web / name).read_bytes()).hexdigest()} {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def built_digest(build: Path = BUILD) -> str:
    """The digest that the build says it was made from."""
    return str(json.loads(build.read_text(encoding="utf-8"))["source_digest"])


if __name__ == "__main__":
    if source_digest() != built_digest():
        sys.exit("the dashboard was built from other sources; run `npm install --no-save && npm run build` in web/.")

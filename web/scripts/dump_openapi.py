"""Writes the service's OpenAPI document to web/openapi.json; with --check, only says whether the file is current."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from memorymark.history import Store
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.settings import Settings

DOCUMENT = Path(__file__).parent.parent / "openapi.json"


def current_document() -> str:
    """The document as the code describes it now."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/history.db")
        app = create_app(Jobs(store, [], queue_size=1, max_seconds=1.0), Settings())
        store.close()
        return json.dumps(app.api_doc, indent=2) + "\n"


def main() -> int:
    """Writes or checks the file."""
    document = current_document()
    if "--check" not in sys.argv[1:]:
        DOCUMENT.write_text(document, encoding="utf-8")
        return 0
    if DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == document:
        return 0
    sys.stderr.write("web/openapi.json is not what the service says now; run `npm run api` in web/.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Writes what the service says of itself: its OpenAPI document, and its options for the dashboard's tests.

With --check, only says whether the files are current.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from memorymark.history import Store
from memorymark.question.flat import OPTIONS
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.settings import Settings

WEB = Path(__file__).parent.parent


def current_document() -> str:
    """The OpenAPI document as the code describes it now."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/history.db")
        app = create_app(Jobs(store, [], queue_size=1, max_seconds=1.0), Settings())
        store.close()
        return json.dumps(app.api_doc, indent=2) + "\n"


def current_options() -> str:
    """What GET /options answers now."""
    return json.dumps({"options": [option.to_dict() for option in OPTIONS.values()]}, indent=2) + "\n"


def main() -> int:
    """Writes or checks the files."""
    documents = {WEB / "openapi.json": current_document(), WEB / "tests" / "data" / "options.json": current_options()}
    stale = [file for file, text in documents.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
    if "--check" not in sys.argv[1:]:
        for file in stale:
            file.write_text(documents[file], encoding="utf-8")
        return 0
    for file in stale:
        sys.stderr.write(f"web/{file.relative_to(WEB)} is not what the service says now; run `npm run api` in web/.\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

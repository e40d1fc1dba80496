"""Prints results as one JSON document."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(document: dict[str, Any]) -> None:
    """Writes the document to stdout."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")

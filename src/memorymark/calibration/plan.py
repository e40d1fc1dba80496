"""What is timed: cases that were chosen once, by a fixed rule and not by how well they are predicted.

``benchmarks/h200_profile.py`` chose them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLAN = Path(__file__).parent / "plan.json"


def planned_cases() -> list[dict[str, Any]]:
    """Returns the cases; kinds take turns, so that a run that is cut short has some of each."""
    cases: list[dict[str, Any]] = json.loads(PLAN.read_text(encoding="utf-8"))
    return cases

"""Renders results for notebooks, as text and as HTML."""

from __future__ import annotations

import io
from typing import Any

from memorymark.render.console import CleanConsole
from memorymark.render.explanation import print_explanation
from memorymark.render.html import fragment
from memorymark.render.matrix import print_matrix
from memorymark.render.terminal import print_facts, print_result
from memorymark.results.explanation import Explanation
from memorymark.results.matrix import Matrix
from memorymark.results.trial import Trial

WIDTH = 110


def mimebundle(result: Any) -> dict[str, str]:
    """Returns the result by MIME type."""
    return {"text/plain": as_text(result), "text/html": fragment(result)}


def as_text(result: Any) -> str:
    """Returns the report as on a terminal, without colours."""
    text = io.StringIO()
    console = CleanConsole(file=text, width=WIDTH, color_system=None, force_terminal=False)
    if isinstance(result, Trial):
        print_facts(result, console)
    elif isinstance(result, Explanation):
        print_explanation(result, console)
    elif isinstance(result, Matrix):
        print_matrix(result, console)
    else:
        print_result(result, console)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")

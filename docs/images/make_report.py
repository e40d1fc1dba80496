"""Draws docs/images/report.svg from an analysis that was measured on a GPU and is kept with the tests.

python docs/images/make_report.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from memorymark.catalog import match_gpu
from memorymark.render import terminal

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.recorded_analyses import recorded  # noqa: E402


def main() -> None:
    """Renders the report as the terminal shows it."""
    _, analysis = recorded("bert_fp32")
    gpu = match_gpu(analysis.info.device_name)
    analysis = replace(analysis, info=replace(analysis.info, sample="128 tokens"), price=gpu.price if gpu else None)
    console = Console(record=True, width=112, highlight=False, file=StringIO(), force_terminal=True)
    terminal.make_console = lambda: console
    terminal.print_analysis(analysis)
    console.save_svg(str(ROOT / "docs/images/report.svg"), title="memorymark analyze bert --memory-gib 21.7")


if __name__ == "__main__":
    main()

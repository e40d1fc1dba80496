"""Writes the figures of docs/ and the tables between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` in its pages.

python tools/generate_docs.py [--check]

All come from what was recorded on a GPU or published by others, in tests/data.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pages import accuracy, advised, calibrated, changes, comparison, kernels, llm, other_gpus, published
from pages.figures import FIGURES

ROOT = Path(__file__).parents[1]
BLOCKS = {
    "accuracy-headline": accuracy.headline,
    "accuracy-summary": accuracy.summary,
    "accuracy-counts": accuracy.counts,
    "accuracy-by-pair": accuracy.by_pair,
    "accuracy-any-model": accuracy.any_model,
    "accuracy-any-model-counts": accuracy.any_model_counts,
    "accuracy-kernels": kernels.by_kind,
    "accuracy-kernels-made-with": kernels.made_with,
    "accuracy-llm": llm.by_case,
    "accuracy-llm-summary": llm.summary,
    "accuracy-llm-made-with": llm.made_with,
    "accuracy-published": accuracy.published,
    "accuracy-made-with": accuracy.made_with,
    "advised": advised.ways,
    "advised-confirmed": advised.confirmed,
    "advised-made-with": advised.made_with,
    "calibrated-by-pair": calibrated.by_pair,
    "calibrated-made-with": calibrated.made_with,
    "calibrated-summary": calibrated.summary,
    "changes": changes.changes,
    "estimates": comparison.estimates,
    "other-gpus-by-gpu": other_gpus.by_gpu,
    "other-gpus-made-with": other_gpus.made_with,
    "other-gpus-summary": other_gpus.summary,
    "published-by-row": published.by_row,
    "published-made-with": published.made_with,
    "published-reasons": published.reasons,
    "published-sources": published.sources,
    "published-summary": published.summary,
    "peers-answers": comparison.answers,
    "peers-details": comparison.details,
    "peers-lead": comparison.lead,
    "peers-made-with": comparison.made_with,
}
BLOCK = re.compile(r"(?<=<!-- begin: )(?P<name>[\w-]+) -->\n.*?(?=<!-- end: (?P=name) -->)", re.DOTALL)


def files(root: Path = ROOT) -> dict[Path, str]:
    """Every file that is made, or has something made in it, and its text."""
    charts = {name: draw() for name, draw in FIGURES.items()}
    made = {root / "docs" / "images" / f"{name}.svg": chart.svg() for name, chart in charts.items()}
    blocks = {name: write() for name, write in BLOCKS.items()}
    blocks |= {f"figure-{name}": f"![{chart.finding}](images/{name}.svg)" for name, chart in charts.items()}
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        made[page] = BLOCK.sub(lambda found: f"{found['name']} -->\n{blocks[found['name']]}\n", text)
    return made


def outdated(root: Path = ROOT) -> list[Path]:
    """The files that are not what they would be."""
    return [path for path, text in files(root).items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> None:
    """Writes the files, or with --check says which are not what they would be."""
    if "--check" not in sys.argv:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
    elif old := outdated():
        names = ", ".join(str(path.relative_to(ROOT)) for path in old)
        sys.exit(f"not what was recorded: {names}; run `make generated`.")


if __name__ == "__main__":
    main()

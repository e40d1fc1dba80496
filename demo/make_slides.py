"""Makes demo/slides.pdf from demo/slides, with the numbers of recorded results; needs Chromium.

python demo/make_slides.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from material.browser import chromium
from material.recorded_results import ROOT
from material.slide_facts import slide_facts

SOURCE = ROOT / "demo" / "slides"
SLIDES = ROOT / "demo" / "slides.pdf"
ASSETS = ROOT / "src" / "memorymark" / "server" / "dashboard" / "assets"


def slides_page() -> str:
    """Returns the slides as one HTML page; a placeholder without a value is an error."""
    environment = Environment(loader=FileSystemLoader(SOURCE), undefined=StrictUndefined, autoescape=True)
    fonts = {name: next(ASSETS.glob(f"{name}-*.woff2")).as_uri() for name in ("inter-latin", "jetbrains-mono-latin")}
    template = environment.get_template("slides.html.jinja")
    return template.render(
        **slide_facts(),
        style=(SOURCE / "slides.css").read_text(encoding="utf-8"),
        sans=fonts["inter-latin"],
        mono=fonts["jetbrains-mono-latin"],
        images=(ROOT / "docs" / "images").as_uri(),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        source = Path(folder) / "slides.html"
        source.write_text(slides_page(), encoding="utf-8")
        page = browser.new_page()
        page.goto(source.as_uri(), wait_until="load")
        page.evaluate("document.fonts.ready")
        page.pdf(path=SLIDES, prefer_css_page_size=True, print_background=True)
    print(SLIDES.relative_to(ROOT))


if __name__ == "__main__":
    main()

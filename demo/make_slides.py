"""Makes demo/slides.pdf from demo/slides, with the numbers of recorded results; needs Chromium.

python demo/make_slides.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from material.browser import chromium
from material.recorded_results import RECORDINGS, ROOT
from material.slide_facts import slide_facts
from material.terminal import run_in_terminal
from memorymark.server.serve import running
from memorymark.server.settings import Settings

SOURCE = ROOT / "demo" / "slides"
SLIDES = ROOT / "demo" / "slides.pdf"
COMMAND = ["memorymark", "analyze", "bert", "--memory-gib", "21.7"]
ASSETS = ROOT / "src" / "memorymark" / "server" / "dashboard" / "assets"


def slides_page(report: str) -> str:
    """Returns the slides as one HTML page, with a report from a terminal; a placeholder without a value is an error."""
    environment = Environment(loader=FileSystemLoader(SOURCE), undefined=StrictUndefined, autoescape=True)
    fonts = {name: next(ASSETS.glob(f"{name}-*.woff2")).as_uri() for name in ("inter-latin", "jetbrains-mono-latin")}
    template = environment.get_template("slides.html.jinja")
    return template.render(
        **slide_facts(),
        report_command=" ".join(COMMAND),
        report=report,
        style=(SOURCE / "slides.css").read_text(encoding="utf-8"),
        sans=fonts["inter-latin"],
        mono=fonts["jetbrains-mono-latin"],
        images=(ROOT / "docs" / "images").as_uri(),
    )


def recorded_report() -> str:
    """Returns what a terminal shows of the analysis recorded on the GPU, as HTML."""
    replay = Settings(port=0, replay=RECORDINGS / "bert-h200-measured.json", replay_speed=1000.0)
    with running(replay) as service:
        server = ["--server", f"http://127.0.0.1:{service.port}", "--quiet"]
        memorymark = str(Path(sys.executable).parent / "memorymark")
        return run_in_terminal([memorymark, *COMMAND[1:], *server])[-1].html


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        source = Path(folder) / "slides.html"
        source.write_text(slides_page(recorded_report()), encoding="utf-8")
        page = browser.new_page()
        page.goto(source.as_uri(), wait_until="load")
        page.evaluate("document.fonts.ready")
        page.pdf(path=SLIDES, prefer_css_page_size=True, print_background=True)
    print(SLIDES.relative_to(ROOT))


if __name__ == "__main__":
    main()

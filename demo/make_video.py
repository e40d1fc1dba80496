"""Makes demo/demo_video.mp4: a real terminal and a real browser, with a real service. Needs Chromium and ffmpeg.

python demo/make_video.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from material.browser import chromium
from material.film import SIZE, Film, caption, find_ffmpeg
from material.pages import card_page, terminal_page
from material.recorded_results import RECORDINGS, ROOT, analysis
from material.terminal import run_in_terminal
from memorymark.server.serve import running
from memorymark.server.settings import Settings

VIDEO = ROOT / "demo" / "demo_video.mp4"
COMMAND = "memorymark analyze bert --gpu a10 --fresh"
PATIENCE_MS = 300_000
# A real run waits for imports; nobody needs to watch that.
LONGEST_WAIT_SECONDS = 1.2


def title(film: Film, page: Page, heading: str, text: str) -> None:
    page.set_content(card_page(heading, text))
    page.evaluate("document.fonts.ready")
    film.show(page, 5)


def in_the_terminal(film: Film, page: Page) -> None:
    """A prediction on the command line, from the command to the report."""
    with tempfile.TemporaryDirectory() as folder:
        shown = run_in_terminal(
            [str(Path(sys.executable).parent / "memorymark"), *COMMAND.split()[1:]],
            MEMORYMARK_DATABASE=f"sqlite:///{folder}/history.db",
        )
    page.set_content(terminal_page(COMMAND))
    caption(page, "No GPU here: MemoryMark predicts one. Waiting is shortened.")
    for one in shown:
        page.locator("output").evaluate("(output, html) => { output.innerHTML = html }", one.html)
        film.show(page, min(one.seconds, LONGEST_WAIT_SECONDS))
    caption(page, "Today's batch, the largest one that trains, and the one worth using.")
    film.show(page, 7)


def in_the_dashboard(film: Film, page: Page, address: str) -> None:
    """The same question in the browser, and what to change."""
    page.goto(address)
    page.get_by_text("Predicted: the server does not have this GPU").wait_for()
    with film.watching(page):
        caption(page, "The same in a browser: choose a model, a GPU and a recipe.")
        page.wait_for_timeout(3500)
        page.get_by_role("button", name="Analyze Memory Usage").hover()
        page.wait_for_timeout(500)
        page.get_by_role("button", name="Analyze Memory Usage").click()
        caption(page, "Trials arrive as they happen. Waiting is shortened.")
        page.get_by_text("Analyze Another Model").first.wait_for()
        caption(page, "How much is wasted today, and how much faster it could be.")
        page.wait_for_timeout(4500)
        scroll(page, 620)
        caption(page, "Where the memory goes, and how fast each batch size trains.")
        page.wait_for_timeout(4000)
        scroll(page, -620)
        caption(page, "What should I change?")
        page.get_by_role("button", name="What should I change?").click()
        page.get_by_text("ways to train checked").first.wait_for()
        caption(page, "Recipes are checked one by one. Waiting is shortened.")
        page.get_by_role("heading", name="faster").first.wait_for()
        caption(page, "The best recipe, what it costs, and code to paste.")
        page.wait_for_timeout(4000)
        scroll(page, 460)
        page.wait_for_timeout(3500)


def in_a_replay(film: Film, page: Page, address: str) -> None:
    """A recording of a GPU that is not here."""
    page.goto(address)
    page.get_by_text("Not live").wait_for()
    with film.watching(page):
        caption(page, "On stage without a GPU: play a recording. It says so on every page.")
        page.wait_for_timeout(4000)
        page.get_by_role("button", name="Play the recording").click()
        most = analysis("bert_fp32")["max_batch_size"]
        caption(page, f"Measured on an NVIDIA H200: batch {most} trains, {most + 1} runs out of memory.")
        page.get_by_text("Analyze Another Model").first.wait_for()
        caption(page, "The recorded answer, for talks without a network.")
        page.wait_for_timeout(4500)


def scroll(page: Page, pixels: int) -> None:
    """Scrolls slowly enough to follow."""
    for _ in range(20):
        page.mouse.wheel(0, pixels / 20)
        page.wait_for_timeout(40)


def with_service(settings: Settings, film: Callable[[str], None]) -> None:
    with running(settings) as service:
        film(f"http://127.0.0.1:{service.port}")


def main() -> None:
    find_ffmpeg()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        film = Film(Path(folder))
        # The page's security policy would not let anybody write a caption into it.
        page = browser.new_context(viewport=SIZE, bypass_csp=True).new_page()
        page.set_default_timeout(PATIENCE_MS)
        title(film, page, "MemoryMark", "How much of your GPU does training waste?")
        in_the_terminal(film, page)
        live = Settings(port=0, database=f"sqlite:///{folder}/history.db", prediction_workers=1)
        with_service(live, lambda address: in_the_dashboard(film, page, address))
        replay = Settings(port=0, replay=RECORDINGS / "bert-h200-measured.json", replay_speed=3.0)
        with_service(replay, lambda address: in_a_replay(film, page, address))
        title(film, page, "Try it", "github.com/memorymark/memorymark")
        film.encode(VIDEO)
        print(f"{VIDEO.relative_to(ROOT)}: {film.seconds:.0f} s, {VIDEO.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

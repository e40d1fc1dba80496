"""Makes demo/demo_video.mp4: a real terminal and a real browser, with a real service. Needs Chromium and ffmpeg.

python demo/make_video.py
"""

from __future__ import annotations

import sys
import tempfile
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
# How far down a running job shows its events.
EVENTS_AT = 260
# A real run waits for imports; nobody needs to watch that.
LONGEST_WAIT_SECONDS = 0.9
# Shows the end of the output, or what begins at a line of it.
SHOW = """([html, line]) => {
  const output = document.querySelector("output"), pre = output.parentElement;
  output.innerHTML = html;
  const lines = html.split("\\n").length + 1;
  pre.scrollTop = line === null ? pre.scrollHeight : (line * pre.scrollHeight) / lines;
}"""


def title(film: Film, page: Page, heading: str, text: str) -> None:
    page.set_content(card_page(heading, text))
    page.evaluate("document.fonts.ready")
    film.show(page, 4)


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
        page.evaluate(SHOW, [one.html, None])
        film.show(page, min(one.seconds, LONGEST_WAIT_SECONDS))
    report = next(number for number, line in enumerate(shown[-1].html.split("\n")) if "predicted" in line)
    page.evaluate(SHOW, [shown[-1].html, report])
    caption(page, "Today's batch, the largest one that trains, and the one worth using.")
    film.show(page, 8)


def in_the_dashboard(film: Film, page: Page, address: str) -> None:
    """The same question in the browser, from the form to the answer."""
    page.goto(address)
    page.get_by_text("Predicted: the server does not have this GPU").wait_for()
    caption(page, "The same in a browser: choose a model, a GPU and a recipe.")
    with film.watching(page, at_most=5):
        page.wait_for_timeout(4000)
        page.get_by_role("button", name="Analyze Memory Usage").hover()
        page.wait_for_timeout(500)
    page.get_by_role("button", name="Analyze Memory Usage").click()
    caption(page, "Trials arrive as they happen. Shown faster than it was.")
    until_answered(film, page)
    caption(page, "How much is wasted today, and how much faster it could be.")
    with film.watching(page, at_most=6):
        page.wait_for_timeout(6000)
    caption(page, "Where the memory goes, and how fast each batch size trains.")
    with film.watching(page, at_most=6):
        scroll(page, 800)
        page.wait_for_timeout(5000)


def with_advice(film: Film, page: Page) -> None:
    """What to change, asked beside the answer."""
    page.get_by_role("button", name="What should I change?").click()
    caption(page, "What should I change? Recipes are checked one by one. Shown faster than it was.")
    until_answered(film, page)
    caption(page, "The best recipe, what it costs, and code to paste.")
    with film.watching(page, at_most=10):
        page.wait_for_timeout(4500)
        scroll(page, 500)
        page.wait_for_timeout(4500)


def in_a_replay(film: Film, page: Page, address: str) -> None:
    """A recording of a GPU that is not here."""
    page.goto(address)
    page.get_by_text("Not live").wait_for()
    caption(page, "On stage without a GPU: play a recording. It says so on every page.")
    with film.watching(page, at_most=5):
        page.wait_for_timeout(5000)
    page.get_by_role("button", name="Play the recording").click()
    most = analysis("bert_fp32")["max_batch_size"]
    caption(page, f"Measured on an NVIDIA H200: batch {most} trains, {most + 1} runs out of memory.")
    until_answered(film, page)
    caption(page, "The recorded answer, for talks without a network.")
    with film.watching(page, at_most=6):
        page.wait_for_timeout(6000)


def until_answered(film: Film, page: Page) -> None:
    """Films a job that runs, so that its events are in sight, and then goes back to the top."""
    page.get_by_role("button", name="Cancel").wait_for()
    scroll(page, EVENTS_AT)
    with film.watching(page, at_most=12):
        page.get_by_text("Analyze Another Model").first.wait_for()
    scroll(page, 0)
    page.wait_for_timeout(1000)


def scroll(page: Page, pixels: int) -> None:
    page.evaluate("top => scrollTo({ top, behavior: 'smooth' })", pixels)


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
        with running(live) as service:
            in_the_dashboard(film, page, f"http://127.0.0.1:{service.port}")
            with_advice(film, page)
        replay = Settings(port=0, replay=RECORDINGS / "bert-h200-measured.json", replay_speed=3.0)
        with running(replay) as service:
            in_a_replay(film, page, f"http://127.0.0.1:{service.port}")
        title(film, page, "Try it", "github.com/memorymark/memorymark")
        film.encode(VIDEO)
        print(f"{VIDEO.relative_to(ROOT)}: {film.seconds:.0f} s, {VIDEO.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

"""Makes docs/images/dashboard-replay.png: a recording in the dashboard while it plays; needs Chromium.

python demo/make_picture.py
"""

from __future__ import annotations

from material.browser import chromium
from material.recorded_results import RECORDINGS, ROOT
from memorymark.server.serve import running
from memorymark.server.settings import Settings

PICTURE = ROOT / "docs" / "images" / "dashboard-replay.png"
SIZE = {"width": 1440, "height": 900}


def main() -> None:
    replay = Settings(port=0, replay=RECORDINGS / "bert-h200-measured.json", replay_speed=3.0)
    with running(replay) as service, chromium() as browser:
        page = browser.new_context(viewport=SIZE, reduced_motion="reduce").new_page()
        page.goto(f"http://127.0.0.1:{service.port}")
        page.get_by_role("button", name="Play the recording").click()
        page.get_by_role("log").get_by_text("batch 64").wait_for(timeout=60_000)
        page.screenshot(path=PICTURE)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()

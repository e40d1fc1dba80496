"""Frames of a browser window, and the video that they make."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page

SIZE = {"width": 1280, "height": 720}
CAPTION = """text => {
  let box = document.getElementById("demo-caption");
  if (!box) {
    box = document.createElement("div");
    box.id = "demo-caption";
    box.style.cssText = `position:fixed; left:50%; bottom:28px; transform:translateX(-50%); z-index:9999;
      width:max-content; max-width:1180px; padding:12px 26px; border-radius:12px; border:1px solid #00ff88;
      background:rgba(0,0,0,.92); color:#f2f2f2; text-align:center; pointer-events:none;
      font:600 23px/1.4 Inter Variable,Inter,system-ui,sans-serif`;
    document.body.append(box);
  }
  box.textContent = text;
  box.style.display = text ? "block" : "none";
}"""


def caption(page: Page, text: str) -> None:
    """Writes a sentence over the lower edge of the page."""
    page.evaluate(CAPTION, text)


@dataclass
class Film:
    """Collects frames in a folder, each with the time it is shown."""

    folder: Path
    frames: list[tuple[Path, float]] = field(default_factory=list)

    def add(self, image: bytes, seconds: float) -> None:
        """Appends a frame."""
        path = self.folder / f"{len(self.frames):05}.jpg"
        path.write_bytes(image)
        self.frames.append((path, seconds))

    def show(self, page: Page, seconds: float) -> None:
        """Appends a still picture of the page."""
        self.add(page.screenshot(type="jpeg", quality=92), seconds)

    @contextmanager
    def watching(self, page: Page, at_most: float) -> Iterator[None]:
        """Films the page inside the ``with``, as it changes; what takes longer is played faster."""
        session = page.context.new_cdp_session(page)
        seen: list[tuple[float, bytes]] = []

        def take(frame: dict[str, Any]) -> None:
            seen.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
            with suppress(Error):  # a frame on its way when the filming ends
                session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

        session.on("Page.screencastFrame", take)
        session.send("Page.startScreencast", {"format": "jpeg", "quality": 92})
        yield
        session.send("Page.stopScreencast")
        session.detach()
        ends = [at for at, _ in seen[1:]] + [time.time()]
        lasted = [end - at for (at, _), end in zip(seen, ends, strict=True)]
        pace = min(1.0, at_most / sum(lasted))
        for (_, image), seconds in zip(seen, lasted, strict=True):
            self.add(image, pace * seconds)

    @property
    def seconds(self) -> float:
        """How long it is."""
        return sum(seconds for _, seconds in self.frames)

    def encode(self, path: Path) -> None:
        """Writes the video with ffmpeg."""
        lines = [f"file '{image}'\nduration {seconds:.3f}\n" for image, seconds in self.frames if seconds > 0]
        listed = self.folder / "frames.txt"
        listed.write_text("".join(lines), encoding="utf-8")
        options = "-vf fps=20,format=yuv420p -c:v libx264 -preset slow -crf 28 -movflags +faststart".split()
        source = ["-f", "concat", "-safe", "0", "-i", str(listed)]
        subprocess.run([find_ffmpeg(), "-y", "-loglevel", "error", *source, *options, str(path)], check=True)


def find_ffmpeg() -> str:
    """Returns the path of ffmpeg; ends the program with a sentence if there is none."""
    found = shutil.which("ffmpeg")
    if found is None:
        sys.exit("ffmpeg is not here; `apt-get install ffmpeg` gets it.")
    return found

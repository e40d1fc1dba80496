"""Runs commands in a real terminal, and shows what was on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

import pyte

COLUMNS, ROWS = 96, 100
SPINNER = re.compile("[\u2800-\u28ff]")
COLORS = {
    "default": "#f2f2f2",
    "black": "#0a0a0a",
    "red": "#ff8080",
    "green": "#00ff88",
    "brown": "#ffc04d",
    "blue": "#7cc0ff",
    "magenta": "#d19bff",
    "cyan": "#7cc0ff",
    "white": "#f2f2f2",
}


@dataclass(frozen=True)
class Shown:
    """What a screen showed, as HTML, and for how many seconds."""

    html: str
    seconds: float


def run_in_terminal(command: Sequence[str], **environment: str) -> list[Shown]:
    """Runs a command to its end, and returns what the screen showed whenever it changed; raises if it fails."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS), **environment})
        os.execvp(command[0], list(command))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    seen: list[tuple[float, str]] = [(time.monotonic(), _html(screen))]
    while (text := _read(terminal)) is not None:
        stream.feed(text)
        if (html := _html(screen)) != seen[-1][1]:
            seen.append((time.monotonic(), html))
    os.close(terminal)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    ends = [at for at, _ in seen[1:]] + [time.monotonic()]
    return _without_spinning(Shown(html, end - at) for (at, html), end in zip(seen, ends, strict=True))


def _without_spinning(shown: Iterable[Shown]) -> list[Shown]:
    """Joins what differs only by the turns of a spinner, which is drawn with Braille characters."""
    joined: list[Shown] = []
    for still, same in groupby(shown, key=lambda one: SPINNER.sub("⠋", one.html)):
        joined.append(Shown(still, sum(one.seconds for one in same)))
    return joined


def _read(terminal: int) -> bytes | None:
    """Returns what was written since the last look, or ``None`` when the command has ended."""
    select.select([terminal], [], [])
    try:
        return os.read(terminal, 65536) or None
    except OSError:  # Linux reports the end of a terminal as an error
        return None


def _html(screen: pyte.Screen) -> str:
    lines = [_line([screen.buffer[row][column] for column in range(screen.columns)]) for row in range(screen.lines)]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _line(characters: list[pyte.screens.Char]) -> str:
    while characters and characters[-1].data == " ":
        characters.pop()
    runs = groupby(characters, key=lambda one: (one.fg, one.bold))
    return "".join(_span("".join(one.data for one in run), *look) for look, run in runs)


def _span(text: str, color: str, bold: bool) -> str:
    known = COLORS.get(color, f"#{color}" if len(color) == 6 else COLORS["default"])
    weight = ";font-weight:700" if bold else ""
    return f'<span style="color:{known}{weight}">{escape(text)}</span>'

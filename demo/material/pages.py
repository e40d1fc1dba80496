"""Pages of the video that are not the dashboard's: title cards and the terminal."""

from __future__ import annotations

import base64
from functools import cache
from html import escape

from material.recorded_results import ROOT

ASSETS = ROOT / "src" / "memorymark" / "server" / "dashboard" / "assets"
FONTS = {"Inter": "inter-latin", "JetBrains Mono": "jetbrains-mono-latin"}


@cache
def fonts() -> str:
    """Returns the dashboard's fonts as CSS that needs no other file."""
    return "".join(
        f'@font-face {{ font-family: "{name}"; font-weight: 100 800; src: url(data:font/woff2;base64,{data}) }}'
        for name, data in zip(FONTS, map(_encoded, FONTS.values()), strict=True)
    )


def card_page(heading: str, text: str) -> str:
    """Returns a page with a heading and a sentence."""
    return _page(
        f"<main><h1>{escape(heading)}</h1><p>{escape(text)}</p></main>",
        "main { position: absolute; top: 250px; left: 120px } h1 { font-size: 84px; margin: 0; letter-spacing: -.02em }"
        "p { font-size: 34px; color: #b4b4b4; margin: 18px 0 }",
    )


def terminal_page(command: str) -> str:
    """Returns a page with a terminal: the command, and an empty ``output`` for what is on the screen."""
    prompt = f'<span style="color:#00ff88">$</span> {escape(command)}'
    return _page(
        f"<main><header><i></i><i></i><i></i></header><pre>{prompt}\n<output></output></pre></main>",
        "main { margin: 24px; height: 672px; border: 1px solid #2b2b2b; border-radius: 14px; background: #000 }"
        "header { height: 34px; border-bottom: 1px solid #2b2b2b; padding: 11px 14px; box-sizing: border-box }"
        "i { display: inline-block; width: 11px; height: 11px; border-radius: 6px; background: #444; margin-right: 8px}"
        'pre { margin: 14px 22px; height: 600px; overflow: hidden; font: 14.5px/1.36 "JetBrains Mono", monospace }',
    )


def _page(body: str, style: str) -> str:
    shared = f"{fonts()} body {{ margin: 0; background: #0a0a0a; color: #f2f2f2; font-family: Inter, sans-serif }}"
    return f"<!doctype html><style>{shared}{style}</style><body>{body}</body>"


def _encoded(file: str) -> str:
    return base64.b64encode(next(ASSETS.glob(f"{file}-*.woff2")).read_bytes()).decode()

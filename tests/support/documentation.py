"""The pages of the documentation, and the blocks of code in them.

A block can be preceded by ``<!-- not run: REASON -->``; it is then only parsed.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = "https://memorymark.github.io/memorymark/"
FOLDERS = ("docs", "examples", "demo", "deploy")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "web" / "README.md",
    *chain.from_iterable(sorted((ROOT / folder).rglob("*.md")) for folder in FOLDERS),
]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A block of code: where it is, in which language, and what is said about it."""

    page: Path
    line: int
    language: str
    text: str
    title: str | None
    not_run: str | None

    @property
    def place(self):
        return f"{name_of(self.page)}:{self.line}"


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@cache
def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start("fence")) + 1,
            language=found["language"],
            text=re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            title=found["title"],
            not_run=found["reason"],
        )
        for found in FENCE.finditer(text)
    ]


def all_blocks(*languages):
    return [block for page in PAGES for block in blocks_of(page) if not languages or block.language in languages]


@cache
def prose_of(page):
    """The page without its code."""
    text = COMMENT.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    return re.sub(r"`[^`\n]+`", lambda code: code[0].translate({ord(mark): None for mark in "[]()!"}), text)


@cache
def anchors_of(page):
    """What links to the headings of a page are called on GitHub, and on the site too."""
    anchors = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchors.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return anchors


def links_of(page):
    """Each link or picture of a page: its text, its target, and whether it is a picture."""
    for found in LINK.finditer(prose_of(page)):
        yield found["text"], found["target"], bool(found["image"])
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", found["text"]):
            yield text, target, True

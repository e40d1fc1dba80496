"""MkDocs calls these functions while it builds the site.

They fill in the pages that are made from the code, and mend the links that lead out of docs/.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from command_reference import command_reference
from http_reference import http_reference

ROOT = Path(__file__).parents[2]
# Stands in a page where the text that is made from the code goes.
PLACES = {
    "<!-- the commands go here -->": command_reference,
    "<!-- the calls go here -->": lambda: http_reference(json.loads((ROOT / "web" / "openapi.json").read_text())),
}
TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
OUTWARD = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")
EXTERNAL = re.compile(r'(?:href|src)="(https?://[^"]+)"')

external_links: set[str] = set()


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Fills in what is made from the code, and lets links to other files of the repository lead to GitHub."""
    for place, make in PLACES.items():
        if place in markdown:
            markdown = markdown.replace(place, make())
    markdown = TABLE_ROW.sub(_with_plain_bars, markdown)
    source = Path(page.file.abs_src_path).parent

    def on_github(link: re.Match[str]) -> str:
        target = (source / link[1]).resolve()
        if not target.exists() or target.is_relative_to(config.docs_dir):
            return link[1]
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(ROOT).as_posix()}"

    return OUTWARD.sub(on_github, markdown)


def _with_plain_bars(row: re.Match[str]) -> str:
    """GitHub needs a backslash before a bar in code in a table, Python-Markdown shows it."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])


def on_page_content(html: str, **_: Any) -> str:
    """Notes the links to other sites, which a build without a network cannot follow."""
    external_links.update(EXTERNAL.findall(html))
    return html


def on_post_build(*, config: Any, **_: Any) -> None:
    """Lists them beside the site, for whoever has a network to check them."""
    listed = "".join(f"{link}\n" for link in sorted(external_links))
    Path(config.site_dir).with_name("external-links.txt").write_text(listed, encoding="utf-8")

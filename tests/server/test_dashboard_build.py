"""The built dashboard in the package is that of its sources, and of the service's own document."""

import json
import runpy
from pathlib import Path

import memorymark.server

WEB = Path(__file__).parents[2] / "web"
BUILT = Path(memorymark.server.__file__).parent / "dashboard"


def test_the_build_is_that_of_the_sources():
    digest = runpy.run_path(str(WEB / "scripts" / "source_digest.py"))["source_digest"]()

    assert json.loads((BUILT / "build.json").read_text())["source_digest"] == digest, "run `make web`"


def test_every_file_that_the_page_names_is_there_and_nothing_comes_from_elsewhere():
    page = (BUILT / "index.html").read_text()
    named = [part.partition('"')[0] for part in page.split('="/')[1:]]

    assert any(name.endswith(".js") for name in named)
    assert [name for name in named if not (BUILT / name).is_file()] == []
    assert "http://" not in page
    assert "https://" not in page


def test_the_types_of_the_dashboard_are_those_of_the_service():
    current = runpy.run_path(str(WEB / "scripts" / "dump_openapi.py"))["current_document"]()

    assert (WEB / "openapi.json").read_text() == current, "run `npm run api` in web/"

"""What a release publishes holds all that is needed, and nothing else."""

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from memorymark.version import __version__
from support.archives import build, in_sdist, in_wheel, metadata

ROOT = Path(__file__).parents[1]
NOT_IN_SDIST = (".ci/", ".github/")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"), "wheel", "sdist")


@pytest.fixture(scope="module")
def wheel(archives):
    return in_wheel(archives[0])


@pytest.fixture(scope="module")
def sdist(archives):
    return in_sdist(archives[1])


def project_files(folder="."):
    """What git keeps or would keep, so that a file just written counts and a cache does not."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a git checkout, to know which files are the project's")
    return {name for name in listed.stdout.split("\0") if (ROOT / name).is_file()}


def test_the_wheel_holds_each_file_of_the_package_and_nothing_else(wheel):
    packed = {f"src/{name}" for name in wheel if ".dist-info/" not in name}

    assert packed == project_files("src/memorymark")


def test_the_source_archive_holds_each_file_of_the_project_and_nothing_else(sdist):
    expected = {name for name in project_files() if not name.startswith(NOT_IN_SDIST)}

    assert set(sdist) - {"PKG-INFO"} == expected


def test_the_source_archive_builds_the_same_wheel(archives, wheel, tmp_path):
    with tarfile.open(archives[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (rebuilt,) = build(tmp_path / "dist", "wheel", source=next(tmp_path.iterdir()))

    assert in_wheel(rebuilt) == wheel


def test_both_archives_hold_the_licence(wheel, sdist):
    licence = (ROOT / "LICENSE").read_bytes()

    assert wheel[f"memorymark-{__version__}.dist-info/licenses/LICENSE"] == sdist["LICENSE"] == licence


def test_links_and_pictures_on_the_page_of_the_package_index_lead_to_the_release(wheel):
    shown = metadata(wheel).get_payload()
    links = re.findall(r"\]\(([^)]+)\)", shown)
    own = [link for link in links if "//github.com/memorymark/" in link or "//raw.githubusercontent.com/" in link]

    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert own
    assert [link for link in own if f"/v{__version__}/" not in link] == []


def test_the_changelog_tells_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)

"""The workflows of GitHub are sound, and test what the package claims."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ACTIONLINT = ROOT / "web" / "node_modules" / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
ZIZMOR = Path(sys.executable).with_name("zizmor")


def finds_nothing(*command):
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.skipif(
    not (shutil.which("node") and ACTIONLINT.exists()),
    reason="needs Node and the packages of `make web/node_modules/ready`",
)
def test_actionlint_finds_nothing_in_the_workflows():
    finds_nothing("node", ACTIONLINT)


@pytest.mark.skipif(not ZIZMOR.exists(), reason="zizmor needs Python 3.11")
def test_zizmor_finds_nothing_unsafe_in_the_workflows():
    finds_nothing(ZIZMOR, "--offline", "--no-progress", ".github")


@pytest.fixture
def tested():
    """The pairs of Python and torch that are tested."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    return workflow["jobs"]["test"]["strategy"]["matrix"]["include"]


def test_the_oldest_and_the_newest_python_that_are_claimed_are_tested(tested):
    classifiers = "\n".join(metadata("memorymark").get_all("Classifier"))
    claimed = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)

    assert [pair["python"] for pair in tested] == [claimed[0], claimed[-1]]


def test_the_oldest_torch_that_is_claimed_and_the_pinned_one_are_tested(tested):
    (needed,) = (one for one in map(Requirement, requires("memorymark")) if one.name == "torch")
    (oldest,) = needed.specifier
    pinned = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]

    assert [pair["torch"] for pair in tested] == [f"{oldest.version}.0", pinned]

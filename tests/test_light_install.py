"""What ``pip install memorymark`` brings without extras is enough for all commands but ``serve``."""

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from memorymark.history import Store
from support.archives import build
from support.kept_jobs import done
from support.light_environment import make_environment, run

SCRIPT = Path(__file__).parent / "watch" / "scripts" / "plain.py"
NOT_NEEDED = {"alembic", "flask", "mako", "prometheus-client", "psycopg", "uvicorn"}
NAMES = "from importlib.metadata import distributions; print(*(one.name.lower() for one in distributions()))"


@pytest.fixture(scope="module")
def light_python(tmp_path_factory):
    """The interpreter of such an environment: one that pip filled, or else one with the wheel and links to the rest."""
    if installed := os.environ.get("MEMORYMARK_LIGHT_PYTHON"):
        return installed
    (wheel,) = build(tmp_path_factory.mktemp("wheel"), "wheel")
    return make_environment(tmp_path_factory.mktemp("light"), wheel)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def memorymark(light_python, folder):
    """Runs a command in the environment; all share a history."""
    return lambda *arguments, **environment: run(light_python, *arguments, folder=folder, **environment)


@pytest.fixture(scope="module")
def analysis(memorymark):
    """A short analysis, which the history keeps."""
    return memorymark("analyze", "bert", "--gpu", "a10", "--small", "--seq-len", "8", "--max-batch", "2", "--json")


@pytest.fixture(scope="module")
def job(analysis, memorymark):
    return json.loads(memorymark("history", "--json").stdout)["jobs"][0]["id"]


def test_no_web_server_and_no_migrations_tool_is_installed(light_python):
    installed = subprocess.run([light_python, "-c", NAMES], capture_output=True, text=True, check=True).stdout.split()

    assert {"torch", "transformers", "sqlalchemy"} <= set(installed)
    assert NOT_NEEDED & set(installed) == set()


def test_the_installed_files_are_used_and_not_those_of_the_project(light_python):
    where = [light_python, "-c", "import memorymark; print(memorymark.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True).stdout

    assert found.startswith(str(Path(light_python).parents[1]))


def test_a_model_is_analyzed(analysis):
    assert analysis.returncode == 0, analysis.stderr
    assert json.loads(analysis.stdout)["max_batch_size"] == 2


def test_a_script_is_watched(memorymark):
    watched = memorymark("watch", "--json", SCRIPT)

    assert watched.returncode == 0, watched.stderr
    assert json.loads(watched.stderr.splitlines()[-1])["steps"] == 15


def test_the_history_shows_and_compares_what_it_kept(memorymark, job, folder):
    other = done()
    with closing(Store(f"sqlite:///{folder}/history.db")) as store:
        store.add(other)

    shown, compared = memorymark("history", job, "--json"), memorymark("compare", job, other.id, "--json")

    assert (shown.returncode, compared.returncode) == (0, 0), shown.stderr + compared.stderr
    assert json.loads(shown.stdout)["result"]["max_batch_size"] == 2
    assert set(json.loads(compared.stdout)["analyses"]) == {job, other.id}


def test_a_report_is_written_as_a_page(memorymark, job, folder):
    written = memorymark("report", job, "-o", "report.html")

    assert written.returncode == 0, written.stderr
    assert "NVIDIA A10" in (folder / "report.html").read_text()


def test_the_doctor_finds_nothing_that_fails(memorymark):
    looked = memorymark("doctor", "--json")

    assert looked.returncode == 0, looked.stderr
    assert {check["status"] for check in json.loads(looked.stdout)["checks"]} <= {"ok", "warn"}


@pytest.mark.parametrize("command", [(), ("serve",)], ids=["all", "serve"])
def test_help_needs_nothing_of_the_service(memorymark, command):
    helped = memorymark(*command, "--help")

    assert helped.returncode == 0, helped.stderr
    assert "serve" in helped.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve",), "Error: the service is not installed here; run `pip install 'memorymark[server]'`.\n"),
        (
            ("history", "--database", "postgresql://host/name"),
            "Error: there is no driver for postgresql here (No module named 'psycopg'); "
            "run `pip install 'memorymark[postgres]'`, or use SQLite.\n",
        ),
    ],
    ids=["server", "postgres"],
)
def test_what_an_extra_brings_is_missed_in_a_sentence_that_names_it(memorymark, arguments, said):
    missed = memorymark(*arguments)

    assert (missed.returncode, missed.stdout, missed.stderr) == (2, "", said)

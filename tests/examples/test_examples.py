"""The examples run as their page says: every script prints what docs/examples.md shows."""

import ast
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from support.command_line import needs_no_gpu, run_apart
from support.parsed_files import parsed

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
CELLS = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
BLOCK = re.compile(r"^```console\n\$ (?P<command>.+)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)
SHOWN = {found["command"]: found["output"] for found in BLOCK.finditer(PAGE)}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a script in an empty folder; returns its exit code or last words, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run_it(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        ended = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as stopped:
            ended = stopped.code
        return ended, capsys.readouterr().out

    return run_it


def is_as_shown(printed, shown):
    """Whether the text is what a page shows; a line of three dots stands for any lines, spaces at ends do not count."""
    lines = [r"(?:.*\n)*" if line.strip() == "..." else f"{re.escape(line.rstrip())}\n" for line in shown.splitlines()]
    plain = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(lines), plain) is not None


def first_line(file):
    if file.suffix == ".ipynb":
        return CELLS[0]["source"][0].removeprefix("# ").strip()
    return ast.get_docstring(parsed(file)).splitlines()[0].removesuffix(".")


def test_the_page_lists_every_example_with_the_first_line_of_its_docstring():
    rows = dict(re.findall(r"^\| \[`([\w.]+)`\]\(\S+/examples/\1\) \| (.+) \|$", PAGE, re.MULTILINE))
    files = [file for file in sorted(EXAMPLES.iterdir()) if file.suffix in (".py", ".ipynb")]

    assert rows == {file.name: first_line(file) for file in files}


def test_the_page_shows_what_every_script_prints():
    scripts = {f"python {file.name}" for file in EXAMPLES.glob("*.py")} - {"python watch_me.py"}

    assert SHOWN.keys() >= scripts | {"memorymark watch watch_me.py"}


@pytest.mark.parametrize("name", ["all_gpus_own_prices.py", "ci_gate.py", "lora.py", "two_optimizers.py"])
def test_a_prediction_is_what_the_page_shows(run, name):
    ended, printed = run(name)

    assert ended == 0
    assert is_as_shown(printed, SHOWN[f"python {name}"]), printed


@needs_no_gpu
# Both are about the other library's own code.
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
@pytest.mark.parametrize("name", ["own_module.py", "trainer.py", "lightning_loop.py"])
def test_a_training_uses_the_batch_that_was_found(run, name):
    ended, printed = run(name)

    assert ended == 0
    assert is_as_shown(printed, SHOWN[f"python {name}"]), printed


def test_the_gate_fails_the_build_for_a_batch_that_may_not_fit(run):
    ended, printed = run("ci_gate.py", "4096")

    assert (f"{ended}\n", printed) == (SHOWN["python ci_gate.py 4096"], "")


def test_the_client_asks_the_service_that_the_variable_names(run, service, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_SERVER", f"http://127.0.0.1:{service.port}")

    ended, printed = run("client.py")

    assert ended == 0
    assert is_as_shown(printed, SHOWN["python client.py"]), printed


def test_the_client_says_what_to_do_where_no_service_answers(run, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_SERVER", "http://127.0.0.1:9")

    ended, _ = run("client.py")

    assert "start one with `memorymark serve`" in ended


@needs_no_gpu
def test_the_watched_script_is_told_that_its_data_is_slow():
    watched = run_apart("watch", str(EXAMPLES / "watch_me.py"), COLUMNS="100")

    assert (watched.returncode, watched.stdout) == (0, "trained for 20 steps\n")
    assert is_as_shown(watched.stdout + watched.stderr, SHOWN["memorymark watch watch_me.py"]), watched.stderr


def shown_by(cell, names):
    """What a notebook shows below a cell: the value of its last line."""
    *before, last = ast.parse("".join(cell["source"])).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def in_html(result):
    return result._repr_mimebundle_()["text/html"]


def test_the_notebook_shows_charts_and_the_numbers_behind_them():
    names = {}

    analysis, trial, sweep, numbers = [shown_by(cell, names) for cell in CELLS if cell["cell_type"] == "code"]

    assert numbers == (analysis.max_batch_size, analysis.recommended.batch_size)
    assert "<svg" in in_html(analysis)
    assert "<svg" in in_html(sweep)
    assert "optimizer state" in in_html(trial)

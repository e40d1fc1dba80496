"""Names and messages of others steer no terminal and no page, whichever way they are printed."""

import ast
import csv
import io
import re
import sys
from contextlib import closing
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.advice.training_script import script_for
from memorymark.catalog import Price
from memorymark.cli import main as cli
from memorymark.cli.history import compare, history
from memorymark.engine.doctor import Check
from memorymark.events import StageStarted, TrialFinished
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.question.request import OwnRequest
from memorymark.render.console import CleanConsole
from memorymark.render.csv import as_csv
from memorymark.render.html import page
from memorymark.render.notebook import as_text
from memorymark.render.plain import clean, one_line
from memorymark.render.progress import Progress
from memorymark.render.terminal import print_checks, print_result
from memorymark.results.advice import Fault, Refused
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.results.trial import Failure, Trial
from support.advices import advice, option
from support.recorded_analyses import recorded

STEERS = "\x1b[2J\x1b]0;title\x07\x9b31m\x7f\x08\u202e\u2066"
MARKUP = "[red]a[/red] [/] [link=http://x] :fire: <b>"
EVIL = f"net{STEERS}{MARKUP}"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text):
    """Whether nothing in it steers; what the markup says is still there to read."""
    assert not STEERING.search(text)
    assert "net[2J]0;title31m[red]a[/red]" in text.replace("\n", "")
    return True


@pytest.fixture
def analysis():
    """An analysis of a workload with such a name, on a device with such a name."""
    result = recorded("bert_fp32")[1]
    request = OwnRequest.from_name(EVIL, result.request.recipe, result.request.target)
    return replace(result, request=request, info=replace(result.info, device_name=EVIL, sample=EVIL, optimizer=EVIL))


@pytest.fixture
def database(tmp_path, analysis):
    url = f"sqlite:///{tmp_path}/history.db"
    with closing(Store(url)) as store:
        for job_id in ("aaa000000000", "bbb000000000"):
            job = new_job(Question(request=mm.Request(model=EVIL, config={"model_type": "bert"})), "http")
            store.add(replace(job, id=job_id, state="done", result=analysis.to_dict()))
        store.add(replace(job, id="ccc000000000", state="failed", error=f"{EVIL}.", error_kind="usage"))
    return url


@pytest.mark.parametrize("columns", ["200", "60"])
def test_the_history(database, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    history(database=database, job=None, model=None, limit=20, as_json=False)

    assert plain(capsys.readouterr().out)


def test_one_job_and_two_side_by_side(database, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    history(database=database, job="aaa", model=None, limit=20, as_json=False)
    assert plain(capsys.readouterr().out)
    compare(["aaa", "bbb"], database=database, as_json=False)
    assert plain(capsys.readouterr().out)


def test_a_report_on_the_terminal_and_in_a_notebook(analysis, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    print_result(analysis)

    assert plain(capsys.readouterr().out)
    assert not STEERING.search(as_text(analysis))


def results_of_every_kind(analysis):
    failed = Trial(batch_size=1, fits=False, failure=Failure("memory", EVIL))
    asked = {"request": analysis.request, "info": analysis.info, "price": Price(3.6, EVIL)}
    told = {"refused": (Refused(("lora",), EVIL),), "faults": (Fault(("bf16",), EVIL),)}
    return {
        "analysis": replace(analysis, price=Price(3.6, EVIL)),
        "comparison": Comparison(analysis.request, {"h200": analysis}),
        "lengths": Sweep(analysis.request, (128,), {128: analysis}),
        "advice": advice(option(("bf16",), 500.0), **asked, **told),
        "trial": failed,
    }


@pytest.mark.parametrize("kind", ["analysis", "comparison", "lengths", "advice", "trial"])
def test_a_page(analysis, kind):
    written = page(results_of_every_kind(analysis)[kind])

    assert not STEERING.search(written)
    assert "net[2J]0;title31m[red]a[/red] [/] [link=http://x] :fire: &lt;b&gt;" in written
    assert ":fire: <b>" not in written


def test_a_script(analysis):
    request = mm.Request(model='/nets/a"""; import this; """\\N{x', config={"model_type": "bert"})
    advised = advice(option(("bf16",), 500.0), request=request)

    program = ast.parse(script_for(advised))

    assert request.entry.name in ast.get_docstring(program)
    assert "this" not in {name.name for node in program.body if isinstance(node, ast.Import) for name in node.names}


def test_a_table(analysis):
    rows = list(csv.DictReader(io.StringIO(as_csv(analysis))))

    assert not STEERING.search("".join(rows[0].values()))
    assert len(rows) == len(analysis.trials)


def test_progress(capsys):
    with Progress() as progress:
        progress.on_event(StageStarted("start", EVIL))
        assert plain(capsys.readouterr().err)
        progress.on_event(TrialFinished("search", Trial(batch_size=1, fits=False, failure=Failure("memory", EVIL))))
        assert plain(capsys.readouterr().err)


def test_an_error(capsys, monkeypatch, database):
    monkeypatch.setattr(sys, "argv", ["memorymark", "history", "ccc", "--database", database])
    with pytest.raises(SystemExit) as caught:
        cli.main()

    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert plain(said)
    assert said.count("\n") == 1


def test_a_check(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    print_checks([Check("GPU", "warn", EVIL, EVIL)])

    assert plain(capsys.readouterr().out)


def test_a_json_document_has_the_name_as_it_is(database, capsys):
    history(database=database, job=None, model=None, limit=1, as_json=True)

    written = capsys.readouterr().out
    assert not STEERING.search(written)
    assert written.isascii()


def test_the_colours_of_a_report_are_its_own():
    text = io.StringIO()
    console = CleanConsole(file=text, force_terminal=True, color_system="standard", width=200)
    console.print(f"[bold]{clean(STEERS)}x[/bold]\nnext{STEERS}")

    assert text.getvalue() == "\x1b[1m[2J]0;title31mx\x1b[0m\nnext[2J]0;title31m\n"


def test_a_sentence_stays_on_one_line():
    assert one_line("a\nb\r\n\tc\u2028d") == "a b c d"

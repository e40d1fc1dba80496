"""Names and messages of others steer no terminal and no page, whichever way they are printed."""

import csv
import io
import re
import sys
from contextlib import closing
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark import cli
from memorymark.checkup import Check
from memorymark.commands.history import compare, history
from memorymark.events import StageStarted, TrialFinished
from memorymark.history import Store, new_job
from memorymark.own import OwnRequest
from memorymark.question import Question
from memorymark.render.console import CleanConsole
from memorymark.render.csv import as_csv
from memorymark.render.html import page
from memorymark.render.notebook import as_text
from memorymark.render.plain import clean, one_line
from memorymark.render.progress import Progress
from memorymark.render.terminal import print_checks, print_result
from memorymark.trial import Failure, Trial
from test_recorded_analyses import recorded

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


def test_a_page(analysis):
    written = page(analysis)

    assert not STEERING.search(written)
    assert "net[2J]0;title31m[red]a[/red] [/] [link=http://x] :fire: &lt;b&gt;" in written


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

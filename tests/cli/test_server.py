"""``--server``: the command line asks a service."""

import json
import sys

import pytest

import memorymark as mm
from memorymark.cli.main import main
from memorymark.history import Store, default_url
from memorymark.question.question import Question
from memorymark.render.terminal import print_analysis

QUESTION = Question(request=mm.Request(model="bert", small=True, seq_len=16, target=mm.Target(gpu="a10")))


@pytest.fixture
def url(call):
    return call.address


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line in this process."""

    def run_it(*arguments):
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["memorymark", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run_it


COMMAND = ("analyze", "bert", "--small", "--seq-len", "16", "--gpu", "a10")


def test_analyze_asks_the_server_and_prints_the_same_report(run, url, client, capsys):
    answer = client.answer(QUESTION)

    code, report, _ = run(*COMMAND, "--server", url)
    as_json = run(*COMMAND, "--server", url, "--json", "--quiet")
    print_analysis(answer)

    assert (code, report) == (0, capsys.readouterr().out)
    assert (as_json[0], json.loads(as_json[1])) == (0, json.loads(json.dumps(answer.to_dict())))
    assert as_json[2] == ""


def test_analyze_shows_the_progress_of_the_server(run, url):
    code, _, progress = run(*COMMAND, "--server", url, "--fresh", "--json")

    assert code == 0
    assert "searching for the largest batch" in progress
    assert "waiting in line" in progress


def test_what_the_server_works_out_is_kept_there(run, url, monkeypatch):
    before = count_of_jobs()
    monkeypatch.setenv("MEMORYMARK_SERVER", url)

    assert run(*COMMAND, "--json", "--quiet")[0] == 0

    assert count_of_jobs() == before


def count_of_jobs():
    store = Store(default_url())
    try:
        return store.count()
    finally:
        store.close()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--server", "ftp://host"), 2, "'ftp://host' is not the address of a server"),
        (("--server", "127.0.0.1:1"), 1, "no server answers at http://127.0.0.1:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_analyze_without_a_server_there_is_one_sentence(run, options, code, said):
    ended, out, err = run(*COMMAND, *options, "--quiet")

    assert (ended, out) == (code, "")
    assert f"Error: {said}" in err
    assert err.count("\n") == 1


def test_analyze_of_what_does_not_fit_there_is_exit_code_3(run, url):
    code, out, _ = run(*COMMAND, "--memory-gib", "0.009765625", "--server", url, "--json", "--quiet")

    document = json.loads(out)
    assert (code, document["status"]) == (3, "error")
    assert "does not train within 10.0 MiB" in document["error"]
    assert (document["code"], document["suggestions"][-1]["change"]) == ("does_not_fit", {"memory_gib": None})
    assert document["trials"]

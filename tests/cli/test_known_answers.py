"""The command line answers the same question again from the history."""

import json
import re
from contextlib import closing
from dataclasses import replace

import pytest

from memorymark import answer as engine
from memorymark.errors import HistoryError
from memorymark.history import Store, new_job
from memorymark.history.recorder import Recorder, known_answer
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.results.advice import Advice
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from support.advices import advice, option
from support.analyses import analysis
from support.command_line import needs_no_gpu, run_apart, run_here
from support.kept_jobs import analysis as recorded_analysis

ON_A10 = Request(model="bert", target=Target(gpu="a10"))
ANSWER = replace(analysis("a10", {100: 80.0, 64: 79.0, 16: 50.0}), request=ON_A10)
QUESTION = Question(request=ON_A10)
ASKED = ("analyze", "bert", "--gpu", "a10")
# What a command that looks has in memory when it is done.
LOADED = """
import atexit, sys
from memorymark.cli.main import main
atexit.register(lambda: print("loaded", *({"torch", "transformers"} & set(sys.modules)), file=sys.stderr))
main()
"""


def test_the_history_is_closed_even_where_an_answer_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_DATABASE", f"sqlite:///{tmp_path}/history.db")
    closed, close = [], Store.close

    def refuse(*_):
        raise HistoryError("the disk is full.")

    def note_and_close(store):
        closed.append(store)
        close(store)

    monkeypatch.setattr(Store, "add", refuse)
    monkeypatch.setattr(Store, "close", note_and_close)

    with pytest.raises(HistoryError):
        Recorder(QUESTION, lambda _: None).answered(ANSWER)
    assert len(closed) == 1


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A history of its own; what it is called with are questions and their answers."""
    monkeypatch.setenv("MEMORYMARK_DATABASE", f"sqlite:///{tmp_path}/history.db")

    def remember(question, result):
        job = new_job(question, "cli", state="done", result=result.to_dict(), finished_at=1_700_000_000.0)
        with closing(Store(f"sqlite:///{tmp_path}/history.db")) as store:
            store.add(job)
        return job

    return remember


@pytest.fixture
def worked_out(monkeypatch):
    """The questions that were not answered from the history."""
    asked = []

    def answer(question, **_):
        asked.append(question)
        return ANSWER

    monkeypatch.setattr(engine, "answer", answer)
    return asked


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path}/history.db"


def test_the_same_question_is_answered_from_the_history_which_is_said(history, worked_out, database):
    job = history(QUESTION, ANSWER)

    result = run_here(*ASKED, "--json", MEMORYMARK_DATABASE=database)

    assert (result.returncode, worked_out) == (0, [])
    assert json.loads(result.stdout) == json.loads(json.dumps(ANSWER.to_dict()))
    said = rf"answered from the history, job {job.id} of \d{{4}}-\d\d-\d\d \d\d:\d\d; --fresh runs it again"
    assert re.search(said, result.stderr)
    assert len(result.stderr.splitlines()) == 1


def test_a_known_answer_is_shown_as_a_new_one_would_be(history, worked_out, database):
    history(QUESTION, ANSWER)

    result = run_here(*ASKED, MEMORYMARK_DATABASE=database)

    assert "79.0 samples/s" in result.stdout
    assert worked_out == []


def test_quiet_leaves_out_that_the_answer_was_known(history, worked_out, database):
    history(QUESTION, ANSWER)

    result = run_here(*ASKED, "--quiet", "--json", MEMORYMARK_DATABASE=database)

    assert (result.returncode, result.stderr, worked_out) == (0, "", [])


@pytest.mark.parametrize("option", ["--fresh", "--no-history"])
def test_a_known_answer_is_worked_out_again_if_that_is_wanted(history, worked_out, database, option):
    history(QUESTION, ANSWER)

    result = run_here(*ASKED, option, "--json", MEMORYMARK_DATABASE=database)

    assert (result.returncode, worked_out) == (0, [QUESTION])
    assert "answered from the history" not in result.stderr
    with closing(Store(database)) as store:
        assert store.count() == (2 if option == "--fresh" else 1)


@pytest.mark.parametrize(
    "other",
    [("--margin", "0.1"), ("--batch-size", "8"), ("--precision", "bf16"), ("--seq-len", "64"), ("--people", "2")],
    ids=" ".join,
)
def test_another_question_is_worked_out(history, worked_out, database, other):
    history(QUESTION, ANSWER)

    run_here(*ASKED, *other, MEMORYMARK_DATABASE=database)

    assert len(worked_out) == 1


def test_what_was_answered_is_known_the_next_time(history, worked_out, database):
    first, second = (run_here(*ASKED, "--json", MEMORYMARK_DATABASE=database) for _ in range(2))

    assert worked_out == [QUESTION]
    assert first.stdout == second.stdout


@needs_no_gpu
def test_without_a_gpu_a_question_that_names_none_is_known_by_the_one_it_is_predicted_for(
    history, worked_out, database
):
    history(QUESTION, ANSWER)

    result = run_here("analyze", "bert", MEMORYMARK_DATABASE=database)

    assert (worked_out, "answered from the history" in result.stderr) == ([], True)


def test_a_known_answer_needs_no_torch(history, database):
    history(QUESTION, ANSWER)

    result = run_apart(*ASKED, "--json", command=("-c", LOADED), MEMORYMARK_DATABASE=database)

    assert result.stderr.splitlines()[-1] == "loaded"
    assert json.loads(result.stdout)["optimal_batch_size"] == 100


@pytest.mark.parametrize(
    ("question", "result", "kind"),
    [
        (Question(request=Request(model="bert"), all_gpus=True), Comparison(ON_A10, {"a10": ANSWER}), Comparison),
        (Question(request=ON_A10, seq_lens=(16, 32)), Sweep(ON_A10, (16, 32), {16: ANSWER, 32: ANSWER}), Sweep),
        (Question(request=ON_A10, advise=True), advice(option(("bf16",), 200.0)), Advice),
    ],
    ids=["comparison", "sweep", "advice"],
)
def test_every_kind_of_answer_is_known_again(history, question, result, kind):
    job = history(question, result)

    found = known_answer(question)

    assert (found.job_id, found.at) == (job.id, job.finished_at)
    assert isinstance(found.result, kind)
    assert json.dumps(found.result.to_dict()) == json.dumps(result.to_dict())


def test_a_measured_answer_is_known_on_its_machine_alone(history, monkeypatch):
    question = Question(request=Request(model="bert", target=Target(device="cuda")))
    history(question, recorded_analysis("bert_fp32"))
    assert known_answer(question) is not None

    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert known_answer(question) is None

    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF")
    monkeypatch.setattr("memorymark.history.job.describe_machine", lambda: {"host": "another"})
    assert known_answer(question) is None


def test_an_answer_of_other_code_is_not_known(history, monkeypatch):
    history(QUESTION, ANSWER)
    assert known_answer(QUESTION) is not None

    monkeypatch.setattr("memorymark.history.job.foundation", lambda: {"source": "changed"})
    assert known_answer(QUESTION) is None


def test_a_model_that_runs_code_is_never_known(history, tmp_path):
    file = tmp_path / "nets.py"
    file.write_text("def make(): ...")
    question = Question(request=Request(model=f"{file}:make", target=Target(gpu="a10")))
    trusted = Question(request=Request(model="org/name", trust_remote_code=True, target=Target(gpu="a10")))
    for asked in (question, trusted):
        history(asked, ANSWER)
        assert known_answer(asked) is None


def test_a_failure_is_no_answer(history, database):
    with closing(Store(database)) as store:
        store.add(new_job(QUESTION, "cli", state="failed", error="no", error_kind="worker"))

    assert known_answer(QUESTION) is None


def test_a_history_that_is_not_there_or_damaged_is_as_none(history, tmp_path):
    assert known_answer(QUESTION) is None
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "history.db").write_text("no database")
    assert known_answer(QUESTION) is None

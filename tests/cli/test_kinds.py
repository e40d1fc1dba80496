"""Every document that a command prints says its kind."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from memorymark.catalog import all_gpus, all_models
from memorymark.history import Store
from memorymark.watch.observation import Observation
from memorymark.watch.report import make_report
from support.aged import aged
from support.command_line import document, run_here
from support.kept_jobs import analysis, done


@pytest.fixture
def history(tmp_path):
    """A history with two analyses, one of them of an earlier version."""
    url = f"sqlite:///{tmp_path / 'history.db'}"
    with closing(Store(url)) as store:
        store.add(done(id="aaa000000000"))
        store.add(replace(done(id="bbb000000000"), result=aged(analysis("bert_fp32").to_dict())))
    return url


def test_the_catalogs():
    models, gpus = document(run_here("models", "--json")), document(run_here("gpus", "--json"))

    assert (models["kind"], len(models["models"])) == ("models", len(all_models()))
    assert (gpus["kind"], len(gpus["gpus"])) == ("gpus", len(all_gpus()))


def test_the_history_and_what_is_made_of_it(history, tmp_path):
    both = ("aaa", "bbb")
    page = tmp_path / "page.json"

    listed = document(run_here("history", "--json", MEMORYMARK_DATABASE=history))
    shown = [document(run_here("history", job, "--json", MEMORYMARK_DATABASE=history)) for job in both]
    compared = document(run_here("compare", *both, "--json", MEMORYMARK_DATABASE=history))
    written = document(run_here("report", "bbb", "-o", str(page), "--json", MEMORYMARK_DATABASE=history))

    assert (listed["kind"], [job["kind"] for job in listed["jobs"]]) == ("jobs", ["analysis", "analysis"])
    assert [job["result"]["kind"] for job in shown] == ["analysis", "analysis"]
    assert {trial["kind"] for job in shown for trial in job["result"]["trials"]} == {"trial"}
    assert (compared["kind"], {one["kind"] for one in compared["analyses"].values()}) == ("side_by_side", {"analysis"})
    assert written == {"kind": "report", "report": str(page)}
    assert json.loads(page.read_text())["kind"] == "analysis"


def test_a_file_of_an_earlier_version_can_be_reported(tmp_path):
    old, page = tmp_path / "old.json", tmp_path / "page.json"
    old.write_text(json.dumps(aged(analysis("bert_fp32").to_dict())))

    assert run_here("report", str(old), "-o", str(page)).returncode == 0
    assert json.loads(page.read_text()) == json.loads(json.dumps(analysis("bert_fp32").to_dict()))


def test_an_error():
    failed = run_here("analyze", "no-such-model", "--json")

    assert (failed.returncode, document(failed)["kind"], document(failed)["status"]) == (2, "error", "error")


def test_a_prediction_is_a_trial():
    predicted = document(run_here("predict", "bert", "--gpu", "a10", "--seq-len", "8", "-b", "2", "--json"))

    assert (predicted["kind"], predicted["batch_size"], predicted["gpu_name"]) == ("trial", 2, "NVIDIA A10")


def test_what_was_watched():
    assert make_report("train.py", Observation()).to_dict()["kind"] == "watch"


def test_what_the_doctor_found():
    assert document(run_here("doctor", "--json"))["kind"] == "doctor"


def test_what_a_fleet_wastes():
    table = str(Path(__file__).parents[1] / "data" / "fleet" / "sacct.txt")
    assert document(run_here("fleet", "--jobstats", table, "--json"))["kind"] == "fleet"

import json
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.question.request import OwnRequest
from memorymark.render.html import fragment, page
from memorymark.results.comparison import Comparison
from memorymark.results.trial import Failure, Trial
from support.command_line import document, run_here
from support.comparisons import comparison
from support.html_pages import Reader
from support.lengths import SWEEP
from support.recorded_analyses import recorded


def results():
    return {
        "measured": recorded("bert_fp32")[1],
        "sweep": SWEEP,
        "sweep in which one does not fit": replace(SWEEP, seq_lens=(128, 256, 512, 1024)),
        "comparison": comparison(a10=100.0, h100=900.0),
        "trial": SWEEP.plan.maximum,
    }


@pytest.mark.parametrize("name", results())
def test_a_page_is_whole_and_needs_nothing_else(name):
    read = Reader(page(results()[name]))

    assert read.open == []
    assert read.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert not any(attribute.startswith("on") or attribute in ("src", "href") for attribute, _ in read.attributes)
    assert not any("url(" in (value or "") for _, value in read.attributes)


def titled(result):
    return page(result).split("<title>")[1].split("</title>")[0]


def test_the_title_of_a_page_names_the_optimizer_that_was_used():
    result = recorded("bert_fp32")[1]
    with_own = replace(result, info=replace(result.info, optimizer="Lion"))

    assert titled(result) == "BERT base, fp32, AdamW"
    assert titled(with_own) == titled(replace(SWEEP, analyses={128: with_own})) == "BERT base, fp32, Lion"
    assert titled(Comparison(result.request, {"h200": with_own})) == "BERT base, fp32, Lion"
    assert titled(result.maximum) == f"batch {result.max_batch_size}, measured"


def test_an_analysis_shows_its_numbers_bars_and_curves():
    result = recorded("bert_fp32")[1]

    read = Reader(fragment(result))

    assert f"maximum {result.max_batch_size}" in read.text
    assert f"recommended {result.recommended.batch_size}" in read.text
    assert "% wasted" in read.text
    assert "all that the device holds" in read.text
    assert f"Code for PyTorch import torch BATCH_SIZE = {result.recommended.batch_size} " in " ".join(read.text.split())
    assert {"svg", "polyline", "circle"} <= read.tags


def test_a_comparison_names_the_fastest_and_says_where_it_does_not_fit():
    text = Reader(fragment(comparison(a10=100.0, h100=900.0))).text

    assert "does not fit" in text
    assert "fastest" in text


def test_a_sweep_says_which_length_to_plan_for():
    text = Reader(fragment(SWEEP)).text

    assert "plan for this" in text
    assert all(sentence in text for sentence in SWEEP.advice)


def test_a_trial_that_failed_says_why():
    failed = Trial(batch_size=9, fits=False, failure=Failure("memory", "out of <memory>", 2, 1))

    assert "batch 9 measured does not fit out of <memory>" in Reader(fragment(failed)).text


def test_names_are_text_and_nothing_else():
    evil = "<script>alert(1)</script>"
    result = recorded("bert_fp32")[1]
    request = OwnRequest.from_name(evil, result.request.recipe, result.request.target)

    read = Reader(page(replace(result, request=request)))

    assert "script" not in read.tags
    assert evil in read.text


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An analysis in a history of its own, and as a file."""
    folder = tmp_path_factory.mktemp("report")
    database = f"sqlite:///{folder / 'history.db'}"
    asked = ("analyze", "bert", "--gpu", "a10", "--small", "--max-batch", "4", "--json", "--quiet")
    answered = run_here(*asked, MEMORYMARK_DATABASE=database)
    (folder / "result.json").write_text(answered.stdout)
    return folder, database


def test_a_job_of_the_history_and_a_file_give_the_same_page(kept):
    folder, database = kept
    job = document(run_here("history", "--json", "--database", database))["jobs"][0]["id"]

    from_job = run_here("report", job[:6], "-o", str(folder / "job.html"), "--database", database)
    from_file = run_here("report", str(folder / "result.json"), "-o", str(folder / "file.html"), "--json")

    assert (from_job.returncode, from_job.stdout) == (0, f"{folder / 'job.html'}\n")
    assert document(from_file) == {"kind": "report", "report": str(folder / "file.html")}
    assert (folder / "job.html").read_text() == (folder / "file.html").read_text()
    assert mm.Analysis.from_dict(json.loads((folder / "result.json").read_text())).max_batch_size == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no JSON", "is not an analysis; give a file from"),
        ("[]", "is not an analysis"),
        ('{"status": "error", "error": "no"}', "is not an analysis"),
        (None, "there is no file"),
    ],
)
def test_what_is_no_analysis_is_refused(tmp_path, content, said):
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content)

    result = run_here("report", str(path), "-o", str(tmp_path / "report.html"))

    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("edit", [{"trials": []}, {"max_batch_size": 7}, {"margin": "half"}], ids=str)
def test_an_analysis_that_was_edited_until_it_makes_no_sense_is_refused(kept, tmp_path, edit):
    path = tmp_path / "edited.json"
    path.write_text(json.dumps({**json.loads((kept[0] / "result.json").read_text()), **edit}))

    result = run_here("report", str(path), "-o", str(tmp_path / "report.html"))

    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "is not an analysis" in result.stderr


def test_a_page_that_cannot_be_written_is_said(kept):
    folder, _ = kept

    result = run_here("report", str(folder / "result.json"), "-o", str(folder / "nowhere" / "report.html"))

    assert result.returncode == 2
    assert "cannot be written: No such file or directory; name another file with --output" in result.stderr

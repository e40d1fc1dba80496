"""What ``memorymark report`` writes: a page, a table or a document, as the name of the file says."""

import csv
import io
import json
from contextlib import closing
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.cli.report import report
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.question.request import OwnRequest
from memorymark.render.csv import as_csv
from memorymark.results.comparison import Comparison
from support.advices import advice, option
from support.recorded_analyses import recorded


@pytest.fixture
def kept(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    result = recorded("bert_fp32")[1]
    with closing(Store(url)) as store:
        job = new_job(Question(request=mm.Request(model="bert")), "cli")
        store.add(replace(job, id="aaa000000000", state="done", result=result.to_dict()))
    return url, result


def test_a_report_is_what_its_name_says(kept, tmp_path, capsys):
    url, result = kept
    for ending in ("csv", "json", "html", "CSV"):
        report("aaa", tmp_path / f"x.{ending}", url, as_json=False)

    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    largest = max((row for row in rows if row["fits"] == "true"), key=lambda row: int(row["batch_size"]))
    assert len(rows) == len(result.trials)
    assert int(largest["batch_size"]) == result.max_batch_size
    assert int(largest["peak_allocated_bytes"]) == result.maximum.peak_allocated_bytes
    assert {row["model"] for row in rows} == {"BERT base"}
    assert mm.Analysis.from_dict(json.loads((tmp_path / "x.json").read_text())) == mm.Analysis.from_dict(
        result.to_dict()
    )
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "x.CSV").read_text() == (tmp_path / "x.csv").read_text()
    assert capsys.readouterr().out.count("\n") == 4


@pytest.mark.parametrize("name", ["x.txt", "x.pdf", "x", "x.csv.gz"])
def test_a_report_of_another_kind_is_refused_with_what_there_is(kept, tmp_path, name):
    with pytest.raises(mm.UsageError, match=r"table \(.csv\), a document \(.json\) or a card to share \(.svg\)"):
        report("aaa", tmp_path / name, kept[0], as_json=False)

    assert not (tmp_path / name).exists()


def test_a_report_is_not_written_over_what_it_is_of(kept, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(kept[1].to_dict()))

    with pytest.raises(mm.UsageError, match="is the source of the report; name another file"):
        report(str(path), path, "", as_json=False)


def test_a_cell_that_a_spreadsheet_would_run_is_text():
    result = recorded("bert_fp32")[1]
    request = OwnRequest.from_name("=1+1", result.request.recipe, result.request.target)

    assert next(csv.DictReader(io.StringIO(as_csv(replace(result, request=request)))))["model"] == "'=1+1"


def test_results_of_every_kind_have_a_table():
    one = recorded("bert_fp32")[1]
    advised = advice(option(("bf16",), 500.0, measured=330.0), measured=110.0)
    compared = Comparison(one.request, {"h200": one, "a10": one})

    lines = [len(list(csv.DictReader(io.StringIO(as_csv(result))))) for result in (one, compared, advised)]

    assert lines == [len(one.trials), 2 * len(one.trials), 2]

"""Sweeps over HTTP: a list, one that fills in, and its files."""

import csv
import io
from contextlib import closing

import pytest

from memorymark.errors import DoesNotFitError
from memorymark.history import Store
from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings
from memorymark.server.watched_sweeps import MOST_KEPT
from memorymark.sweep.running import Sweeping
from support.calls import TOKEN
from support.engines import Instant
from support.sweeps import cases

GRID = "model: bert\ngpu: [a10, h100]\nmargin: [0.05, 0.1]\n"
FAILS = {2: DoesNotFitError("it does not fit.")}


@pytest.fixture
def jobs(idle_jobs):
    return idle_jobs()


@pytest.fixture
def client(jobs):
    return create_app(jobs, Settings()).test_client()


def sweep(jobs, engine=None, document=GRID, **options):
    """Sweeps in a store of its own, as another process would."""
    with closing(Store(f"sqlite:///{jobs.store.file}")) as store:
        source = options.pop("source", "sweep.yaml")
        return Sweeping(cases(document), engine or Instant(), store, source=source, together_at_most=1, **options).run()


def is_refused(answer, status):
    schemas.Error.model_validate(answer.json)
    return answer.status_code == status and answer.json["error"].endswith(".")


def listed(client):
    return client.get("/sweeps").json["sweeps"]


def shown(client, query=""):
    (only,) = listed(client)
    return client.get(f"/sweeps/{only['id']}{query}").json["sweep"]


def test_a_sweep_fills_in_before_its_watchers_who_hear_only_of_what_is_new(jobs, client):
    seen = []

    def look(_):
        seen.append(shown(client, f"?after={seen[-1]['upto'] if seen else 0}"))

    sweep(jobs, Instant(fails=FAILS), on_progress=look)

    assert [[case["state"] for case in each["cases"]] for each in seen] == [
        ["waiting"] * 4,
        *([state] for state in ("done", "does_not_fit", "done", "done")),
    ]
    assert [(each["state"], each["done"]) for each in seen] == [("running", done) for done in range(5)]
    assert [len(each["groups"]) for each in seen] == [0, 1, 1, 1, 1]
    last = shown(client, f"?after={seen[-1]['upto']}")
    assert (last["state"], last["cases"], last["groups"], last["upto"]) == ("finished", [], None, seen[-1]["upto"])


def test_the_cases_are_those_of_the_result_with_their_jobs(jobs, client):
    grid = sweep(jobs, Instant(fails=FAILS)).to_dict()

    found = shown(client)

    assert [{name: value for name, value in case.items() if name != "state"} for case in sorted_by_number(found)] == (
        grid["cases"]
    )
    assert found["groups"] == grid["groups"]
    assert [axis["name"] for axis in found["axes"]] == ["gpu", "margin"]
    job = client.get(f"/jobs/{found['cases'][0]['job']}").json["job"]
    assert job["result"]["max_batch_size"] == found["cases"][0]["max_batch_size"]


def sorted_by_number(found):
    return sorted(found["cases"], key=lambda case: case["number"])


def test_many_cases_come_page_by_page(jobs, client):
    sweep(jobs)
    first = shown(client, "?limit=3")
    rest = shown(client, f"?limit=3&after={first['upto']}")

    assert (len(first["cases"]), first["more"], first["groups"]) == (3, True, None)
    assert (len(rest["cases"]), rest["more"], len(rest["groups"])) == (1, False, 1)
    assert {case["number"] for case in first["cases"] + rest["cases"]} == {1, 2, 3, 4}


def test_a_watcher_of_a_history_that_was_replaced_gets_everything(jobs, client):
    sweep(jobs)

    assert len(shown(client, "?after=100000")["cases"]) == 4


def test_a_sweep_that_is_run_again_is_shown_anew(jobs, client):
    sweep(jobs)
    before = shown(client)
    sweep(jobs)
    after = shown(client, f"?after={before['upto']}")

    assert (after["id"], after["reused"], len(after["cases"])) == (before["id"], 4, 4)
    assert not any(case["is_new"] for case in after["cases"])


def test_watching_many_sweeps_confuses_none(jobs, client):
    for number in range(MOST_KEPT + 2):
        sweep(jobs, document=f"model: bert\ngpu: a10\nmax_batch: {number + 1}\n", source=f"{number}.yaml")
    ids = {one["source"]: one["id"] for one in listed(client)}

    for number in (*range(MOST_KEPT + 2), 0):
        found = client.get(f"/sweeps/{ids[f'{number}.yaml']}").json["sweep"]
        assert [case["options"]["max_batch"] for case in found["cases"]] == [number + 1]


def test_sweeps_are_listed_page_by_page(jobs, client):
    assert client.get("/sweeps").json == {"kind": "sweeps", "status": "success", "sweeps": [], "next": None}
    for margin in (0.1, 0.2, 0.3):
        sweep(jobs, document=f"model: bert\ngpu: a10\nmargin: {margin}\n", source=f"{margin}")

    first = client.get("/sweeps?limit=2").json
    rest = client.get(f"/sweeps?limit=2&before={first['next']}").json

    assert [one["source"] for one in first["sweeps"] + rest["sweeps"]] == ["0.3", "0.2", "0.1"]
    assert rest["next"] is None
    assert is_refused(client.get("/sweeps?before=000000000000"), 400)


@pytest.mark.parametrize("query", ["?after=-1", "?limit=0", "?limit=5001", "?form=csv"])
def test_a_query_that_makes_no_sense_is_refused(jobs, client, query):
    sweep(jobs)
    (only,) = listed(client)

    assert is_refused(client.get(f"/sweeps/{only['id']}{query}"), 400)


@pytest.mark.parametrize("path", ["/sweeps/abcabcabcabc", "/sweeps/%00", "/sweeps/abcabcabcabc/report"])
def test_a_sweep_that_nobody_knows_is_an_error_in_a_sentence(client, path):
    answer = client.get(path)

    assert is_refused(answer, 404)
    assert answer.json["error"] == "there is no sweep with this id; GET /sweeps lists them."


def test_files_of_a_sweep_are_those_of_the_command_line(jobs, client):
    grid = sweep(jobs, Instant(fails=FAILS))
    (only,) = listed(client)
    page, rows, document = (client.get(f"/sweeps/{only['id']}/report?form={form}") for form in ("html", "csv", "json"))

    assert [answer.content_type.split(";")[0] for answer in (page, rows, document)] == [
        "text/html",
        "text/csv",
        "application/json",
    ]
    assert page.headers["Content-Disposition"] == f"attachment; filename=memorymark-sweep-{only['id']}.html"
    assert "it does not fit." in page.text
    assert [row["number"] for row in csv.DictReader(io.StringIO(rows.text))] == ["1", "2", "3", "4"]
    assert {**document.json, "seconds": 0} == {**grid.to_dict(), "seconds": 0}


def test_what_waits_is_in_no_file(jobs, client):
    with pytest.raises(KeyboardInterrupt):
        sweep(jobs, Instant(stops_after=1))
    (only,) = listed(client)

    assert only["state"] == "stopped"
    assert len(client.get(f"/sweeps/{only['id']}/report?form=json").json["cases"]) == 1


def test_sweeps_are_for_those_who_have_the_token(jobs):
    client = create_app(jobs, Settings(token=TOKEN)).test_client()

    for path in ("/sweeps", "/sweeps/abcabcabcabc", "/sweeps/abcabcabcabc/report"):
        assert is_refused(client.get(path), 401)
    assert client.get("/sweeps", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200

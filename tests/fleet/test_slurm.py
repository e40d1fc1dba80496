"""What Slurm says of running jobs, in the forms of its versions."""

import json
from pathlib import Path

import pytest

from memorymark.errors import UsageError
from memorymark.fleet.holds import Device, Holder
from memorymark.fleet.sources.slurm import expanded, read_squeue

DATA = Path(__file__).parents[1] / "data" / "fleet"
NEW, OLD = (read_squeue((DATA / name).read_text()) for name in ("squeue.json", "squeue-23.02.json"))


def on(jobs, host, index, when=1e12):
    return [holder.id for holder in jobs.on(Device(host, str(index)), when)]


def test_jobs_are_found_by_host_and_index():
    assert [on(NEW, "g2", index) for index in range(5)] == [["4103"], ["4104"], ["4104"], ["4108"], []]
    assert on(NEW, "g1", 1) == ["4101"]
    assert on(NEW, "g9", 1) == []


def test_an_older_form_is_read_too():
    assert [on(OLD, host, index) for host in ("gpu08", "gpu09") for index in (0, 2, 3)] == [
        ["4201"], ["4201"], [], [], [], ["4201"],
    ]  # fmt: skip
    assert OLD.jobs[0].holder == Holder("slurm", "4201", "judy", "two-nodes", 1701983394.0)


def test_hosts_agree_with_and_without_their_domain():
    assert on(NEW, "g3", 0) == on(NEW, "G3.cluster.example.org", 0) == ["4106"]


def test_a_gpu_is_a_jobs_only_since_it_started():
    [job] = [job for job in NEW.jobs if job.holder.id == "4103"]

    assert on(NEW, "g2", 0, job.holder.started - 1) == []
    assert on(NEW, "g2", 0, job.holder.started) == ["4103"]


def test_a_task_of_an_array_is_known_by_both_of_its_ids():
    assert NEW.described(Holder("slurm", "4000_7")).owner == "dave"
    assert NEW.described(Holder("slurm", "4104")).owner == "dave"
    assert NEW.described(Holder("slurm", "9999")) == Holder("slurm", "9999")


def test_jobs_that_wait_hold_nothing():
    assert "4109" not in {job.holder.id for job in NEW.jobs}


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("gpu[01-03,07],login", ["gpu01", "gpu02", "gpu03", "gpu07", "login"]),
        ("r[1-2]n[8-9]", ["r1n8", "r1n9", "r2n8", "r2n9"]),
        ("a-b-c", ["a-b-c"]),
        ("", []),
    ],
)
def test_lists_of_hosts_are_expanded(hosts, names):
    assert expanded(hosts) == names


def details(*gres, nodes="n[1-2]"):
    job = {"job_id": 1, "job_state": ["RUNNING"], "nodes": nodes, "gres_detail": list(gres), "start_time": 1}
    return read_squeue(json.dumps({"jobs": [job]}))


def test_indexes_are_read_where_they_are_and_nothing_is_guessed():
    assert on(details("gpu:a100:1(IDX:0),gpu:v100:2(IDX:2-3),mps:10", nodes="n1"), "n1", 3) == ["1"]
    assert on(details("gpu:(null):2(IDX:0-1)", nodes="n1"), "n1", 1) == ["1"]
    assert on(details("gpu:2", nodes="n1"), "n1", 0) == []
    assert on(details("gpu:2(IDX:N/A)", nodes="n1"), "n1", 0) == []
    assert on(details("gpu:1(IDX:0)"), "n1", 0) == [], "two hosts and one detail"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"jobs": [1]}', '{"jobs": [{"job_state": "RUNNING"}]}', '{"jobs": null}',
             '{"jobs": [{"job_id": 1, "job_state": "RUNNING", "nodes": "n[1-99999999]", "gres_detail": []}]}'],
)  # fmt: skip
def test_anything_else_is_refused_in_a_sentence(text):
    with pytest.raises(UsageError, match="takes what `squeue --json` prints") as refused:
        read_squeue(text)
    assert (refused.value.code, refused.value.field) == ("malformed", "slurm")

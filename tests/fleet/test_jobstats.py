"""What jobstats wrote into Slurm's accounting."""

import base64
import gzip
from pathlib import Path

import pytest

from memorymark.errors import UsageError
from memorymark.fleet.ranking import rank
from memorymark.fleet.sources import jobstats
from memorymark.fleet.sources.jobstats import read_sacct, summary
from support.command_line import document, run_here

DATA = Path(__file__).parents[1] / "data" / "fleet"
TABLE = (DATA / "sacct.txt").read_text()


def test_the_planted_jobs_are_found_and_none_else():
    holds, left_out = read_sacct(TABLE)
    found = {job.id: job.verdict for job in rank(holds)}

    assert found == {
        "3901": "idle", "3902": "oversized", "3903": "fine", "3904": "underused", "3908": "too_young",
    }  # fmt: skip
    # One summary is cut short, one has no utilization; the job without GPUs is none of ours.
    assert left_out == 2


def test_a_job_has_its_owner_its_hours_and_its_gpus():
    idle = rank(read_sacct(TABLE)[0])[0]

    assert (idle.id, idle.owner, idle.name, idle.gpus) == ("3901", "mallory", "sweep", 2)
    assert (idle.gpu_names, idle.gpu_hours, idle.ended) == (("NVIDIA A100 80 GB",), 48.0, True)
    assert idle.busy_deviation is None


def test_the_command_reads_a_file_alone():
    ran = run_here("fleet", "--jobstats", str(DATA / "sacct.txt"), "--json", "--quiet")
    found = document(ran)

    assert ran.returncode == 0
    assert (found["seconds"], found["sources"], len(found["jobs"])) == (None, ["jobstats"], 5)
    assert found["warnings"] == ["2 of jobstats' summaries are damaged or lack utilization; those jobs are left out."]


def test_a_summary_that_grows_without_end_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(jobstats, "LARGEST_SUMMARY_BYTES", 1000)
    bomb = base64.b64encode(gzip.compress(b"[" + b" " * 10_000 + b"]")).decode()

    with pytest.raises(ValueError, match="too large"):
        summary(f"JS1:{bomb}")


@pytest.mark.parametrize("busy", ["NaN", "1e999", '"many"', "null"])
def test_what_is_no_number_is_left_out(busy):
    about = '{"gpus": 1, "total_time": 7200, "nodes": {"g1": {"gpu_utilization": {"0": BUSY}}}}'.replace("BUSY", busy)
    comment = base64.b64encode(gzip.compress(about.encode())).decode()

    assert read_sacct(f"JobID|AdminComment\n1|JS1:{comment}\n") == ([], 1)


@pytest.mark.parametrize("text", ["", "no table", "JobID|State\n1|RUNNING\n", "AdminComment\nJS1:None\n"])
def test_a_table_without_the_columns_is_refused(text):
    with pytest.raises(UsageError, match="sacct -a -X -P -o JobIDRaw") as refused:
        read_sacct(text)
    assert refused.value.field == "jobstats"

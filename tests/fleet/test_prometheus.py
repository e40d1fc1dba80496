"""A real Prometheus that scraped a week of a made cluster: the planted jobs are found, and none else."""

import subprocess
from pathlib import Path

import pytest

from memorymark.results.fleet import Fleet
from support.command_line import document, run_here
from support.fleet_cluster import FINE, PLANTED
from support.servers import program

DATA = Path(__file__).parents[1] / "data" / "fleet"


def verdicts(found):
    return {job["id"]: job["verdict"] for job in found["jobs"]}


def by_id(found):
    return {job["id"]: job for job in found["jobs"]}


@pytest.fixture(scope="module")
def week(cluster, tmp_path_factory):
    """The document of the last week, and the files written with it."""
    folder = tmp_path_factory.mktemp("week")
    files = {name: folder / f"fleet.{name}" for name in ("html", "csv", "metrics")}
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    asked = ("--prometheus", cluster.url, "--since", "7d", "--slurm", cluster.squeue, *options)
    ran = run_here("fleet", *asked, "--json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return document(ran), {name: path.read_text() for name, path in files.items()}


@pytest.mark.parametrize("since", ["7d", "1h"])
def test_the_planted_jobs_are_found_and_none_else(cluster, week, since):
    found = week[0]
    if since == "1h":
        found = document(run_here("fleet", "--prometheus", cluster.url, "--slurm", cluster.squeue, "--json"))

    assert verdicts(found) == {**PLANTED, **FINE}
    assert {job["id"] for job in found["jobs"] if job["findings"]} == set(PLANTED)
    assert found["gpus"] == 13
    assert found["verdicts"] == {
        "idle": 3,
        "data_bound": 1,
        "oversized": 1,
        "tensor_idle": 1,
        "fine": 2,
        "too_young": 1,
    }


def test_a_week_holds_the_hours_that_were_wasted(week):
    jobs = by_id(week[0])

    # One GPU idle for the week, one for the last five days of it; frank's for two days.
    assert jobs["4101"]["wasted_gpu_hours"] == pytest.approx(168 + 120, abs=1)
    assert jobs["4106"]["wasted_gpu_hours"] == pytest.approx(48, abs=1)
    assert jobs["4103"]["wasted_gpu_hours"] == pytest.approx(168 * 0.64, rel=0.02)
    assert jobs["4102"]["findings"][0]["smaller_gpu"] == "l4"
    # Of GPUs without a label, g3 had one for the week, one before frank and one before erin, and k1 one.
    assert week[0]["free_gpu_hours"] == pytest.approx(168 + 120 + 96 + 168, abs=2)


def test_jobs_that_waste_most_money_come_first(week):
    costs = [job["wasted_usd"] for job in week[0]["jobs"]]

    assert costs == sorted(costs, reverse=True)
    assert week[0]["wasted_usd"] == pytest.approx(sum(costs))


def test_jobs_are_named_by_labels_by_slurm_and_by_pods(week):
    jobs = by_id(week[0])

    assert (jobs["4103"]["owner"], jobs["4103"]["name"], jobs["4103"]["hosts"]) == ("carol", "imagenet", ["g2"])
    assert (jobs["4106"]["owner"], jobs["4106"]["hosts"]) == ("frank", ["g3"])
    assert (jobs["4104"]["gpus"], jobs["4104"]["gpu_names"]) == (2, ["NVIDIA H100 80 GB"])
    assert jobs["team-a/notebook-0"]["holder"] == "kubernetes"


def test_without_slurm_jobs_have_no_owner_and_unlabelled_gpus_no_job(cluster):
    found = by_id(document(run_here("fleet", "--prometheus", cluster.url, "--json", "--quiet")))

    assert set(found) == {*PLANTED, *FINE} - {"4105", "4106"}
    assert found["4103"]["owner"] == ""


def test_the_document_is_read_back(week):
    assert Fleet.from_dict(week[0]).to_dict() == week[0]


def test_ended_jobs_of_jobstats_stand_beside_those_of_prometheus(cluster):
    asked = ("--prometheus", cluster.url, "--jobstats", str(DATA / "sacct.txt"), "--json", "--quiet")
    found = by_id(document(run_here("fleet", *asked)))

    assert (found["3901"]["verdict"], found["3901"]["source"], found["3901"]["ended"]) == ("idle", "jobstats", True)
    assert (found["4101"]["source"], found["4101"]["ended"]) == ("prometheus", False)


def test_a_price_of_ones_own_counts_for_all_gpus(cluster, week):
    asked = ("--prometheus", cluster.url, "--since", "7d", "--price-per-hour", "2", "--top", "2", "--json", "--quiet")
    found = document(run_here("fleet", *asked))

    # No longer the money of an H100: alice's two GPUs, then the pod's one.
    assert [job["id"] for job in found["jobs"]] == ["4101", "team-a/notebook-0"]
    assert found["jobs"][0]["wasted_usd"] == pytest.approx(2 * found["jobs"][0]["wasted_gpu_hours"])
    assert sum(found["verdicts"].values()) == len(week[0]["jobs"]) - 2


def test_the_metrics_are_what_prometheus_reads(week):
    metrics = week[1]["metrics"]
    checked = subprocess.run(
        [program("promtool", "prometheus"), "check", "metrics"],
        input=metrics,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert (
        'memorymark_fleet_job_wasted_gpu_seconds{holder="slurm",id="4101",owner="alice",verdict="idle"} 10' in metrics
    )
    assert 'memorymark_fleet_jobs{verdict="fine"} 2' in metrics


def test_the_table_has_all_jobs_and_the_page_those_that_waste(week):
    rows = week[1]["csv"].splitlines()

    assert len(rows) == 1 + len(week[0]["jobs"])
    assert all(job in week[1]["html"] for job in PLANTED)
    assert "4105" not in week[1]["html"]


def test_the_terminal_says_what_to_tell_the_owners(cluster):
    told = run_here("fleet", "--prometheus", cluster.url, "--slurm", cluster.squeue, COLUMNS="100").stdout

    assert "6 of 9 jobs waste up to" in told
    assert "4102 (bob): Uses 9.0 of 80 GiB, busy 3" in told
    assert "`memorymark watch`" in told
    assert "Not listed: 2 fine, 1 too young to judge." in told

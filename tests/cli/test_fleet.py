"""``memorymark fleet`` without a cluster: what it refuses, and what it writes."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from support.command_line import document, run_here

DATA = Path(__file__).parents[1] / "data" / "fleet"
SACCT, SQUEUE = str(DATA / "sacct.txt"), str(DATA / "squeue.json")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "7d"), "--since is for --prometheus and --jobstats now"),
        (("--since", "7d", "--jobstats", SACCT), "--since is for --prometheus and --jobstats now"),
        (("--prometheus", "http://x", "--since", "week"), "--since takes a time such as 90m, 24h or 7d, not 'week'."),
        (("--prometheus", "http://x", "--since", "60s"), "--since is a time from 15m"),
        (("--prometheus", "http://x", "--since", "60w"), "to 366d, not 60w"),
        (("--jobstats", "no-such-file"), "no-such-file cannot be read: No such file or directory"),
        (("--jobstats", SQUEUE), "--jobstats takes a table of `sacct -a -X -P -o JobIDRaw"),
        (("--slurm", SACCT, "--jobstats", SACCT), "--slurm takes what `squeue --json` prints"),
        (("--slurm", "-", "--jobstats", "-"), "only one of --slurm and --jobstats can be read from stdin"),
        (("--jobstats", SACCT, "--price-per-hour", "-1"), "--price-per-hour must be 0 or more, not -1"),
        (("--jobstats", SACCT, "--html", "no/such/folder.html"), "name another file with --html"),
    ],
)
def test_misuse_is_a_sentence(arguments, said):
    ran = run_here("fleet", *arguments, "--quiet")

    assert ran.returncode == 2
    assert ran.stderr.startswith("Error: ")
    assert said in ran.stderr


def test_no_command_of_slurm_is_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    ran = run_here("fleet", "--jobstats", "now", "--quiet")
    assert (ran.returncode, ran.stderr) == (
        2, "Error: there is no sacct here; run it where Slurm is, and give --jobstats the file.\n",
    )  # fmt: skip


def test_slurms_commands_are_run_and_only_read(monkeypatch, tmp_path):
    called = tmp_path / "called"
    for name, file in (("sacct", SACCT), ("squeue", SQUEUE)):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "{name} $@" >> {called}\n/bin/cat {file}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))

    found = document(run_here("fleet", "--jobstats", "now", "--slurm", "now", "--since", "7d", "--json", "--quiet"))

    assert len(found["jobs"]) == 5
    assert called.read_text().splitlines() == [
        "squeue --json",
        "sacct -a -X -P -S now-10080minutes -o JobIDRaw,User,JobName,State,ElapsedRaw,AllocTRES,AdminComment",
    ]


@pytest.mark.parametrize("option", ["--slurm", "--jobstats"])
def test_a_dash_reads_stdin(option, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(SQUEUE if option == "--slurm" else SACCT).read_text()))
    other = ("--jobstats", SACCT) if option == "--slurm" else ("--slurm", SQUEUE)

    found = document(run_here("fleet", option, "-", *other, "--json", "--quiet"))
    assert len(found["jobs"]) == 5


def test_a_command_that_fails_says_why(monkeypatch, tmp_path):
    script = tmp_path / "squeue"
    script.write_text("#!/bin/sh\necho slurm_load_jobs error: Unable to contact slurm controller >&2\nexit 1\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))

    ran = run_here("fleet", "--slurm", "now", "--quiet")

    assert ran.returncode == 1
    assert "squeue failed; run it to see why: slurm_load_jobs error: Unable to contact slurm controller." in ran.stderr


def test_metrics_replace_the_file_at_once(tmp_path):
    file = tmp_path / "fleet.prom"
    file.write_text("old")
    before = file.stat().st_ino

    assert run_here("fleet", "--jobstats", SACCT, "--metrics", str(file)).returncode == 0
    assert "memorymark_fleet_wasted_usd 110.0" in file.read_text()
    assert file.stat().st_ino != before
    assert [found.name for found in tmp_path.iterdir()] == ["fleet.prom"]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    assert run_here("fleet", "--jobstats", SACCT, "--metrics", str(pipe)).returncode == 0
    assert b"memorymark_fleet_gpus 5" in os.read(reader, 2**16)
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("columns", ["200", "60"])
def test_wide_and_narrow_terminals_hear_the_same(columns):
    told = " ".join(run_here("fleet", "--jobstats", SACCT, COLUMNS=columns).stdout.split())

    assert "3 of 5 jobs waste up to 61.0 of 83.3 GPU-hours (73 %), $110.04." in told
    assert told.count("Its 2 GPUs did nothing for 48.0 of 48.0 GPU-hours") == 1
    assert "an NVIDIA GeForce RTX 4090 would do ($0.74/h instead of $1.59/h)" in told
    assert "Not listed: 1 fine, 1 too young to judge." in told


def test_what_others_wrote_steers_no_terminal_page_table_or_metric(tmp_path):
    table = (DATA / "sacct.txt").read_text().replace("mallory", '=1+1\x1b[2J"<b>\\')
    (tmp_path / "sacct.txt").write_text(table)
    files = {name: tmp_path / name for name in ("html", "csv", "metrics")}
    options = [part for name, file in files.items() for part in (f"--{name}", str(file))]

    ran = run_here("fleet", "--jobstats", str(tmp_path / "sacct.txt"), *options)

    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout + "".join(file.read_text() for file in files.values())
    assert "<b>\\" not in files["html"].read_text().partition("</style>")[2]
    assert "'=1+1" in files["csv"].read_text()
    assert 'owner="=1+1[2J\\"<b>\\\\"' in files["metrics"].read_text()


def test_json_says_what_the_sentences_say():
    found = document(run_here("fleet", "--jobstats", SACCT, "--json", "--quiet"))
    idle = found["jobs"][0]

    assert (found["kind"], idle["id"], idle["verdict"], idle["ended"]) == ("fleet", "3901", "idle", True)
    assert idle["findings"] == [
        {
            "finding": "idle",
            "gpus": 2,
            "gpu_hours": 48.0,
            "wasted_gpu_hours": 48.0,
            "smaller_gpu": None,
            "smaller_usd_per_hour": None,
        }
    ]
    assert json.loads(json.dumps(found)) == found

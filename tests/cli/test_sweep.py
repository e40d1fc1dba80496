"""``memorymark sweep``: what it prints and writes, and how it ends."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.command_line import document, new_history, run_here
from support.processes import is_running, wait_until

SMALL = ("--model", "bert", "--small", "--seq-len", "8", "--memory-gib", "0.05", "--gpu", "a10,l4", "--workers", "1")


def test_a_sweep_is_shown_written_and_known_the_next_time(tmp_path):
    history, table, page, whole = new_history(), tmp_path / "x.csv", tmp_path / "x.html", tmp_path / "x.json"
    outputs = [part for path in (table, page, whole) for part in ("-o", str(path))]

    first = run_here("sweep", *SMALL, *outputs, MEMORYMARK_DATABASE=history)
    again = run_here("sweep", *SMALL, "--json", MEMORYMARK_DATABASE=history)
    alone = run_here(
        *("analyze", "bert", "--small", "--seq-len", "8", "--memory-gib", "0.05", "--gpu", "l4"),
        MEMORYMARK_DATABASE=history,
    )

    assert first.returncode == 0, first.stderr
    assert "BERT base (small stand-in)" in first.stdout
    assert "2 of 2 cases" in first.stderr
    assert [row["gpu"] for row in csv.DictReader(table.read_text().splitlines())] == ["a10", "l4"]
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(whole.read_text())["kind"] == document(again)["kind"] == "grid"
    assert (document(again)["reused"], document(again)["failed"]) == (2, 0)
    assert "answered from the history" in alone.stderr


def test_mistakes_are_all_named_and_nothing_is_run(tmp_path):
    file, history = tmp_path / "sweep.yaml", new_history()
    file.write_text("model: [bert, brt]\ngpu: a11\nseq_lne: 8\n")

    refused = run_here("sweep", str(file), MEMORYMARK_DATABASE=history)
    told = document(run_here("sweep", str(file), "--json", MEMORYMARK_DATABASE=history))

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"Error: {file} has 3 mistakes, so nothing was run:\n  line 1: ")
    assert [line.split(":")[0] for line in refused.stderr.splitlines()[1:]] == ["  line 1", "  line 2", "  line 3"]
    assert [one["line"] for one in told["mistakes"]] == [1, 2, 3]
    assert [one["field"] for one in told["mistakes"]] == ["model", "gpu", "seq_lne"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a model"),
        (("nowhere.yaml",), "nowhere.yaml cannot be read"),
        (("--model", "bert", "--gpu", "a11"), "unknown GPU 'a11'"),
        (("--model", "bert", "-o", "x.pdf"), "end it in .html, .csv or .json"),
        (("--model", "bert", "-o", "no-folder/x.csv"), "there is no folder no-folder"),
        (("--model", "bert", "--address", "10.0.0.1:6379"), "--address is that of a Ray cluster; add --engine ray"),
        (("--model", "bert", "--engine", "ray", "--workers", "2"), "--workers is for this machine"),
        (("--model", "bert", "--engine", "ray", "--address", "ray://x:10001"), "without ray://"),
        (("--model", "bert", "--workers", "0"), "must be 1 or more"),
    ],
)
def test_misuse_is_said_and_exits_with_2(arguments, said):
    result = run_here("sweep", *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_case_without_an_answer_stops_no_other_and_exits_with_1(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def broken():\n    raise ValueError('not this one')\n")

    failing = run_here(
        "sweep", "--model", f"{own}:broken,bert", "--small", "--gpu", "a10", "--max-batch", "2", "--json"
    )

    assert failing.returncode == 1
    assert [case["error_code"] is None for case in document(failing)["cases"]] == [False, True]


def test_ctrl_c_says_how_to_go_on_and_leaves_nothing_running(tmp_path):
    command = [sys.executable, "-m", "memorymark", "sweep", "--model", "gpt2", "--gpu", "all", "--workers", "1"]
    environment = {**os.environ, "MEMORYMARK_DATABASE": new_history()}
    sweep = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # In the background SIGINT may be ignored; here it is to be heard.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    workers = wait_until(lambda: children(sweep.pid))
    sweep.send_signal(signal.SIGINT)
    timer = threading.Timer(60, sweep.kill)
    timer.start()
    _, said = sweep.communicate()
    timer.cancel()

    assert sweep.returncode == 130, said
    assert "the same command goes on from there" in said
    wait_until(lambda: not any(map(is_running, workers)))


def children(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]

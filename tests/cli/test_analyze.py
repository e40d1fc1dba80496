"""``memorymark analyze``."""

import re

import pytest

from memorymark.catalog import find_gpu
from memorymark.units import GIB
from support.command_line import SMALL, document, needs_no_gpu, run_here


def test_analyze_answers_on_stdout_and_tells_its_progress_on_stderr():
    result = run_here("analyze", *SMALL, "--max-batch", "4", "-b", "2", "--json")

    answer = document(result)
    assert result.returncode == 0
    assert (answer["max_batch_size"], answer["current_batch_size"], answer["limited_by"]) == (4, 2, "caller")
    assert (answer["source"], answer["device"], answer["max_batch_interval"]) == ("measured", "cpu", None)
    assert "searching for the largest batch" in result.stderr
    assert len(re.findall(r"✓ batch \d+", result.stderr)) == len(answer["trials"])
    assert "\x1b" not in result.stdout + result.stderr


def test_the_report_for_people_with_no_progress():
    result = run_here("analyze", *SMALL, "--max-batch", "4", "-b", "2", "--quiet")

    assert (result.returncode, result.stderr) == (0, "")
    assert "as far as --max-batch allowed" in result.stdout
    assert "\x1b" not in result.stdout


def test_analyze_of_what_does_not_fit_is_exit_code_3_and_a_document_with_what_was_tried():
    result = run_here("analyze", "bert", "--device", "cpu", "--memory-gib", "0.01", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert answer["status"] == "error"
    assert "does not train within 10.2 MiB even at batch 1" in answer["error"]
    assert answer["trials"]
    assert not any(trial["fits"] for trial in answer["trials"])


@pytest.fixture(scope="module")
def predicted():
    """A small stand-in predicted for the A10."""
    return run_here("analyze", "bert", "--small", "--gpu", "a10", "--json")


def test_analyze_predicts_for_the_gpu_that_is_named(predicted):
    answer = document(predicted)

    rows = {row["batch_size"]: row["success"] for row in answer["results"]}
    assert predicted.returncode == 0
    assert (answer["source"], answer["device"], answer["gpu_name"]) == ("predicted", "cuda", "NVIDIA A10")
    assert answer["gpu_total_gb"] == find_gpu("a10").torch_memory_bytes / GIB
    assert {trial["source"] for trial in answer["trials"]} == {"predicted"}
    assert (answer["limited_by"], answer["max_is_exact"]) == ("memory", True)
    assert (rows[answer["max_batch_size"]], rows[answer["max_batch_size"] + 1]) == (True, False)
    assert (answer["small"], answer["unknown_operations"]) == (True, [])


def test_a_predicted_maximum_comes_with_what_the_true_one_should_lie_between(predicted):
    answer = document(predicted)

    low, high = answer["max_batch_interval"]
    assert 0.8 * answer["max_batch_size"] < low < answer["max_batch_size"] < high < 1.2 * answer["max_batch_size"]


def test_a_prediction_recommends_a_batch_and_says_what_it_saves(predicted):
    answer = document(predicted)

    speeds = {row["batch_size"]: row["samples_per_second"] for row in answer["results"]}
    assert speeds[answer["recommended_batch_size"]] >= 0.985 * max(filter(None, speeds.values()))
    assert answer["speedup"] == speeds[answer["recommended_batch_size"]] / speeds[16] > 1
    assert answer["price"]["usd_per_hour"] == find_gpu("a10").price.usd_per_hour
    assert answer["cost_savings_per_run"] == pytest.approx(2 * 1.29 * (1 - 1 / answer["speedup"]))


@needs_no_gpu
def test_where_there_is_no_gpu_analyze_predicts_for_the_default_one(predicted):
    result = run_here("analyze", "bert", "--small", "--json", "--quiet")

    def numbers(answer):
        return {name: value for name, value in answer.items() if name not in ("seconds", "info", "request")}

    assert (result.returncode, result.stderr) == (0, "")
    assert numbers(document(result)) == numbers(document(predicted))


def test_several_gpus_are_listed_with_the_fastest_and_the_cheapest(predicted):
    some = ["t4", "a10", "l4", "rtx3090", "h100", "mi300x"]
    result = run_here("analyze", "bert", "--small", "--gpu", ",".join(some), "--json")

    answer = document(result)
    rows = {row["gpu"]: row for row in answer["gpus"]}
    costs = {gpu: row["usd_per_million_samples"] for gpu, row in rows.items() if row["price"]}
    alone = document(predicted)
    assert (result.returncode, answer["source"], answer["model_name"]) == (0, "predicted", "bert")
    assert sorted(rows) == sorted(some)
    fastest, cheapest = answer["fastest_candidates"], answer["cheapest_candidates"]
    assert fastest[0] == max(rows, key=lambda gpu: rows[gpu]["samples_per_second"] or 0) == next(iter(rows))
    assert (rows["mi300x"]["memory_only"], rows["mi300x"]["samples_per_second"]) == (True, None)
    assert cheapest[0] == min(costs, key=costs.get)
    assert answer["fastest"] == (fastest[0] if len(fastest) == 1 else None)
    assert answer["cheapest"] == (cheapest[0] if len(cheapest) == 1 else None)
    assert all(f"{find_gpu(gpu).name}: up to batch {rows[gpu]['max_batch_size']}" in result.stderr for gpu in some)
    for name in ("max_batch_size", "max_batch_interval", "recommended_batch_size", "price"):
        assert rows["a10"][name] == alone[name]


def test_several_lengths_give_the_largest_batch_of_each_and_the_one_to_plan_for():
    asked = ("analyze", "bert", "--gpu", "a10", "--small", "--seq-len", "16,64", "--max-batch", "64", "--quiet")

    found, shown = document(run_here(*asked, "--json")), run_here(*asked).stdout

    assert (found["seq_lens"], found["plan_for"], found["max_batch_size"]) == ([16, 64], 64, 64)
    assert [row["seq_len"] for row in found["lengths"]] == [16, 64]
    assert "several lengths" in shown
    assert "Plan for 64 tokens, the longest" in shown

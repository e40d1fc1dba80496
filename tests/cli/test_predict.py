"""``memorymark predict``."""

import re

from memorymark.catalog import find_gpu
from support.command_line import document, run_here


def test_predict_gives_the_fields_of_a_trial_with_intervals():
    result = run_here("predict", "bert", "--small", "-b", "8", "--gpu", "h200", "--json", "--quiet")

    answer = document(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (8, True, "predicted")
    assert (answer["gpu_name"], answer["unknown_operations"]) == ("NVIDIA H200", [])
    assert answer["capacity_bytes"] == find_gpu("h200").usable_bytes
    assert sum(answer["breakdown"].values()) == answer["device_bytes"]
    assert answer["breakdown"]["context_bytes"] == find_gpu("h200").context_bytes[1]
    for name, (low, high) in answer["intervals"].items():
        assert low < answer[name] < high


def test_predict_of_what_does_not_fit_is_exit_code_3_and_a_trial():
    result = run_here("predict", "bert", "--small", "-b", "50000", "--gpu", "t4", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (50_000, False, "predicted")
    assert answer["failure"]["kind"] == "memory"
    assert answer["failure"]["requested_bytes"] > answer["failure"]["free_bytes"]
    assert "predicting steps at batch 50000" in result.stderr


def test_a_compiled_step_cannot_be_predicted_which_is_one_sentence():
    result = run_here("predict", "bert", "--small", "--gpu", "a10", "--compile", "--quiet")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: torch.compile")
    assert "drop --compile" in result.stderr
    assert result.stderr.splitlines()[1:] == ["Try:", "  memorymark predict bert --small --gpu a10 --quiet"]


def test_lora_is_in_the_report_and_says_how_much_is_trained():
    shown = run_here("predict", "bert", "-b", "2", "--gpu", "a10", "--small", "--lora", "4").stdout

    assert "LoRA rank 4" in shown
    assert re.search(r"[\d,]+ of [\d,]+ parameters are trained; the others are frozen\.", shown)

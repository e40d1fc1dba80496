"""``memorymark validate``."""

from support.command_line import document, run_here


def test_validate_backward_shows_that_the_backward_pass_runs():
    result = run_here("validate", "backward", "resnet", "--device", "cpu", "--json")

    answer = document(result)
    assert result.returncode == 0
    assert answer["verdict"] == ("PASS" if answer["ratio"] >= 2 else "WARN")
    assert answer["ratio"] == answer["forward_backward_bytes"] / answer["forward_bytes"] >= 1.5
    assert answer["full_step_bytes"] >= answer["forward_backward_bytes"]


def test_validate_compile_is_refused_where_compiled_memory_cannot_be_counted():
    result = run_here("validate", "compile", "resnet", "-b", "2", "--device", "cpu", "--json")

    assert result.returncode == 2
    assert "torch.compile cannot be measured on the CPU" in document(result)["error"]

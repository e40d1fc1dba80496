"""``memorymark measure``."""

from support.command_line import SMALL, document, needs_no_gpu, run_here


def test_measure_of_what_does_not_fit_is_exit_code_3_and_a_trial():
    result = run_here("measure", *SMALL, "-b", "5000", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert (answer["batch_size"], answer["fits"], answer["failure"]["kind"]) == (5000, False, "memory")


def test_measure_gives_the_fields_of_a_trial():
    result = run_here("measure", *SMALL, "-b", "4", "--json", "--quiet")

    answer = document(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (4, True, "measured")
    assert answer["peak_allocated_bytes"] <= answer["peak_reserved_bytes"] <= answer["device_bytes"]
    assert sum(answer["breakdown"].values()) == answer["device_bytes"]
    assert answer["samples_per_second"] > 0


@needs_no_gpu
def test_where_there_is_no_gpu_measure_still_runs_on_the_cpu():
    answer = document(run_here("measure", "bert", "--seq-len", "8", "-b", "1", "--json", "--quiet"))

    assert (answer["source"], answer["fits"], answer["intervals"]) == ("measured", True, None)
    assert answer["breakdown"]["context_bytes"] == 0

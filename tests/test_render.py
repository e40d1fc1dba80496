import re
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.builtin import builtin_workload
from memorymark.catalog import Price
from memorymark.devices import open_device
from memorymark.events import TrialFinished
from memorymark.probe.measured import MeasuredProbe
from memorymark.render.progress import Progress
from memorymark.render.terminal import print_analysis, print_backward, print_trial
from memorymark.search import find_maximum
from memorymark.trial import Failure, Trial
from memorymark.units import MIB
from memorymark.validation import BackwardCheck


@pytest.fixture(scope="module")
def result():
    """A real analysis, run in this process."""
    request = mm.Request(model="bert", seq_len=8, small=True, target=mm.Target(device="cpu", memory_cap_bytes=20 * MIB))
    probe = MeasuredProbe(builtin_workload(request), request.recipe, open_device(request.target))
    info = replace(probe.info, small=True, sample="8 tokens")
    found = find_maximum(probe.try_batch, info.capacity_bytes)
    timed = [probe.measure(size) for size in (found.maximum, found.maximum // 2, 2)]
    return mm.Analysis(
        request=request,
        info=info,
        trials=[*found.trials, *timed],
        max_batch_size=found.maximum,
        current_batch_size=2,
        margin=0.05,
        usage=mm.Usage(),
        price=None,
    )


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a renderer prints."""

    def show(render, *arguments, columns=200):
        monkeypatch.setenv("COLUMNS", str(columns))
        render(*arguments)
        return capsys.readouterr().out

    return show


def with_speeds(result, *speeds):
    """The same analysis with other throughputs at today's size, at half of the maximum and at the maximum."""
    sizes = (2, result.max_batch_size // 2, result.max_batch_size)
    speed_at = dict(zip(sizes, speeds, strict=True))
    trials = [
        replace(t, samples_per_second=speed_at[t.batch_size]) if t.samples_per_second else t for t in result.trials
    ]
    return replace(result, trials=trials)


def row(text, *words):
    """The first line with these words, in any order."""
    return next(line for line in text.splitlines() if all(word in line.split() for word in words))


def test_the_report_names_the_three_batch_sizes_and_what_was_run(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 250.0, 220.0))

    largest = result.max_batch_size
    assert row(report, "today", "batch", "2", "wasted")
    assert f"{largest + 1} runs out of memory" in row(report, "maximum", str(largest), "runs")
    assert re.search(r"2\.50x \(± \d+ %\) faster than today, measured", row(report, "recommended", str(largest // 2)))
    assert "BERT base (small stand-in)" in report
    assert "8 tokens" in report
    assert "CPU capped to 20.0 MiB" in report
    assert "fp32, AdamW" in report


def test_the_curve_has_a_row_for_each_timed_size(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 250.0, 210.0))

    assert "today" in row(report, "2", "100.0")
    assert "recommended" in row(report, str(result.max_batch_size // 2), "250.0")
    assert "maximum" in row(report, str(result.max_batch_size), "210.0")


def test_the_breakdown_of_the_maximum_is_shown(result, shown):
    report = shown(print_analysis, result)

    assert f"At the maximum, batch {result.max_batch_size}" in report
    for part in ("weights", "optimizer state", "activations", "all that the device holds"):
        assert part in report


def test_the_notes_say_what_the_numbers_leave_out(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 110.0, 120.0))

    assert "leave the data loader out and are upper bounds" in report
    assert "a small stand-in of the model was really trained on the CPU" in report
    assert "No price is known for this device: give --price-per-hour to see savings" in report
    assert "hrashing" not in report


def test_a_stand_in_on_a_gpu_is_not_said_to_have_run_on_the_cpu(result, shown):
    on_gpu = replace(result, info=replace(result.info, device_kind="cuda", device_name="NVIDIA A10"))

    report = shown(print_analysis, on_gpu)

    assert "small stand-in" in report
    assert "CPU" not in report


def test_thrashing_sizes_are_marked_and_explained(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 250.0, 60.0))

    assert "thrashing" in row(report, str(result.max_batch_size), "60.0")
    assert f"Thrashing at batch {result.max_batch_size}: it trains, but" in report


def test_savings_are_shown_with_the_price_they_come_from(result, shown):
    priced = replace(result, price=Price(2.0, "lambda", "2026-08-03"), usage=mm.Usage(people=3))

    report = shown(print_analysis, with_speeds(priced, 100.0, 200.0, 150.0))

    saves = row(report, "saves")
    assert "$2.00 a run, $600 a year" in saves
    assert "at $2.00/h, lambda, 2026-08-03; 2 h a run, 100 runs a year, 3 people" in saves


def test_no_gain_is_said_plainly(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 101.0, 102.0))

    assert "no faster than today: the batch size is not what slows you down" in report


def test_a_current_batch_that_does_not_fit_is_shown_as_such(result, shown):
    report = shown(print_analysis, replace(result, current_batch_size=result.max_batch_size + 1))

    assert "does not fit" in row(report, "today", str(result.max_batch_size + 1))
    assert f"nothing to compare with: today's batch {result.max_batch_size + 1} does not fit" in report


def test_a_current_batch_beyond_the_caller_s_limit_is_not_said_not_to_fit(result, shown):
    fitting = [trial for trial in result.trials if trial.fits]
    report = shown(print_analysis, replace(result, trials=fitting, current_batch_size=100_000))

    assert "as far as --max-batch allowed" in report
    assert "does not fit" not in report


def test_no_size_that_keeps_the_margin_is_said_plainly(result, shown):
    assert "no size keeps a margin of 99 %" in shown(print_analysis, replace(result, margin=0.99))


def test_on_a_narrow_terminal_nothing_is_cut_off(result, shown):
    report = shown(print_analysis, result, columns=80)

    assert "measured" in report
    assert "…" not in report


def test_a_trial_is_shown_with_its_peaks_and_parts(result, shown):
    report = shown(print_trial, result.request, result.info, result.maximum)

    for fact in ("peak allocated", "peak reserved", "throughput", "allocator retries", "weights", "activations"):
        assert fact in report
    assert "measured" in report


def test_a_trial_that_failed_says_why(result, shown):
    failed = next(trial for trial in result.trials if not trial.fits)

    report = shown(print_trial, result.request, result.info, failed)

    assert f"batch {failed.batch_size} does not fit: out of memory: asked for" in report


BRACKETS = "[enforce fail at alloc_cpu.cpp:117] can't allocate memory [/usr/lib]"


def test_the_reason_of_a_failure_may_have_brackets(result, shown):
    failed = Trial(batch_size=4, fits=False, failure=Failure("memory", BRACKETS))

    assert BRACKETS in shown(print_trial, result.request, result.info, failed)


def test_the_reason_of_a_failure_may_have_brackets_in_the_progress(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with Progress() as progress:
        progress.on_event(TrialFinished("search", Trial(batch_size=4, fits=False, failure=Failure("memory", BRACKETS))))

    assert BRACKETS in capsys.readouterr().err


def test_the_progress_is_on_stderr_and_can_be_silenced(result, capsys):
    for quiet in (False, True):
        with Progress(quiet=quiet) as progress:
            progress.on_event(TrialFinished("search", result.maximum))

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count(f"batch {result.max_batch_size}") == 1


@pytest.mark.parametrize(("ratio", "verdict"), [(1.2, "FAIL"), (1.7, "WARN"), (2.5, "PASS")])
def test_the_verdict_on_the_backward_pass(ratio, verdict, shown):
    report = shown(print_backward, BackwardCheck(8, 10 * MIB, int(ratio * 10 * MIB), 30 * MIB))

    assert f"{ratio:.2f}x at batch 8" in report
    assert f"{verdict}: " in report

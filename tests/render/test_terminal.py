import re
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.catalog import Price, all_gpus, find_gpu
from memorymark.devices import open_device
from memorymark.engine.validate import BackwardCheck, PredictionCheck
from memorymark.events import TrialFinished
from memorymark.largest_batch import find_maximum
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.render.progress import Progress
from memorymark.render.terminal import (
    print_analysis,
    print_backward,
    print_comparison,
    print_prediction_check,
    print_trial,
)
from memorymark.render.words import notes, prediction_notes
from memorymark.results.comparison import Comparison
from memorymark.results.trial import Failure, Trial
from memorymark.units import MIB, format_bytes


@pytest.fixture(scope="module")
def result():
    """A real analysis, run in this process."""
    request = mm.Request(model="bert", seq_len=8, small=True, target=mm.Target(device="cpu", memory_cap_bytes=20 * MIB))
    probe = MeasuredProbe(workload_of(request), request.recipe, open_device(request.target))
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


@pytest.fixture(scope="module")
def predicted():
    """A real prediction for the A10, made in this process."""
    request, gpu = mm.Request(model="bert", small=True, target=mm.Target(gpu="a10")), find_gpu("a10")
    step = trace_training(workload_of(request), request.recipe, gpu.capability)
    probe = PredictedProbe(step, request.recipe, gpu)
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    return mm.Analysis(
        request=request,
        info=replace(probe.info, small=True, sample="64 tokens"),
        trials=[*found.trials, *(probe.measure(size) for size in (found.maximum, found.maximum // 2, 2))],
        max_batch_size=found.maximum,
        current_batch_size=2,
        margin=0.05,
        usage=mm.Usage(),
        price=gpu.price,
    )


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a renderer prints."""

    def show(render, *arguments, columns=200, **options):
        monkeypatch.setenv("COLUMNS", str(columns))
        render(*arguments, **options)
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
    assert re.search(
        r"2\.50x( \(\S+ to \S+\))? faster than today, measured", row(report, "recommended", str(largest // 2))
    )
    assert "BERT base (small stand-in)" in report
    assert "8 tokens" in report
    assert "CPU capped to 20.0 MiB" in report
    assert "fp32, AdamW" in report


def test_the_curve_has_a_row_for_each_timed_size(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 250.0, 210.0))

    assert "today" in row(report, "2", "800")
    assert "recommended" in row(report, str(result.max_batch_size // 2), "2,000")
    assert "maximum" in row(report, str(result.max_batch_size), "1,680")
    assert row(report, "batch", "allocated", "tokens/s")


def test_the_breakdown_of_the_maximum_is_shown(result, shown):
    report = shown(print_analysis, result)

    assert f"At the maximum, batch {result.max_batch_size}" in report
    for part in ("weights", "optimizer state", "activations", "all that the device holds"):
        assert part in report


def test_the_notes_say_what_the_numbers_leave_out(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 110.0, 120.0))

    assert "leave the data loader out and are upper bounds" in report
    assert "a small stand-in of the model was trained on the CPU" in report
    assert "No price is known for this device: give --price-per-hour to see savings" in report
    assert "hrashing" not in report


def test_a_stand_in_on_a_gpu_is_not_said_to_have_run_on_the_cpu(result, shown):
    on_gpu = replace(result, info=replace(result.info, device_kind="cuda", device_name="NVIDIA A10", gpu_id="a10"))

    report = shown(print_analysis, on_gpu)

    assert "small stand-in" in report
    assert "CPU" not in report


def test_thrashing_sizes_are_marked_and_explained(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 250.0, 60.0))

    assert "thrashing" in row(report, str(result.max_batch_size), "480")
    assert f"Thrashing at batch {result.max_batch_size}: it trains, but" in report


def test_savings_are_shown_with_the_price_they_come_from(result, shown):
    priced = replace(result, price=Price(2.0, "lambda", "2026-08-03"), usage=mm.Usage(people=3))

    report = shown(print_analysis, with_speeds(priced, 100.0, 200.0, 150.0))

    saves = row(report, "saves")
    assert "$2.00 a run, $600 a year" in saves
    assert "at $2.00/h, lambda, 2026-08-03; 2 h a run, 100 runs a year, 3 people" in saves


def test_no_gain_is_said_plainly(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 101.0, 102.0))

    assert "samples/s, the batch you use today: a larger one is no faster" in row(report, "recommended", "2")


def test_a_larger_batch_that_gains_little_is_said_not_to_be_what_slows_training_down(result, shown):
    report = shown(print_analysis, with_speeds(result, 100.0, 104.0, 104.0))

    assert "no faster than today: the batch size is not what slows you down" in report


def test_a_current_batch_that_does_not_fit_is_shown_as_such(result, shown):
    report = shown(print_analysis, replace(result, current_batch_size=result.max_batch_size + 1))

    assert "does not fit" in row(report, "today", str(result.max_batch_size + 1))
    assert f"nothing to compare with: today's batch of {result.max_batch_size + 1} does not fit" in report


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


def test_a_prediction_shows_the_interval_of_the_maximum_and_says_that_nothing_was_run(predicted, shown):
    report = shown(print_analysis, predicted)

    low, high = predicted.max_batch_interval
    largest = predicted.max_batch_size
    assert "64 tokens · fp32, AdamW · NVIDIA A10 22.06 GiB · predicted" in report
    assert f"{largest + 1} runs out of memory" in row(report, "maximum", str(largest), "runs")
    assert f"between {low} and {high}" in row(report, "maximum", str(largest), "runs")
    gain = "{:.2f}x ({:.2f} to {:.2f}) faster than today, predicted".format(
        predicted.speedup, *predicted.speedup_interval
    )
    assert gain in row(report, "recommended", "tokens/s", "to", "samples/s,")
    assert "Predicted, nothing was run" in report
    assert "CUDA context" in report
    assert "measured" not in report


def test_a_measured_analysis_shows_no_interval_and_does_not_say_that_nothing_was_run(result, shown):
    report = shown(print_analysis, result)

    assert "between" not in report
    assert "nothing was run" not in report


def test_a_model_with_operations_that_were_never_checked_is_said_to_be_less_certain(predicted, shown):
    unusual = replace(predicted, info=replace(predicted.info, unknown_operations=("aten.sort.default", "aten.topk")))

    certain, uncertain = shown(print_analysis, predicted), shown(print_analysis, unusual)

    assert "Less certain than usual" in uncertain
    assert "Measure on the GPU before you rely on the numbers" in uncertain
    assert "sort" not in uncertain
    assert "Less certain" not in certain
    assert f"between {unusual.max_batch_interval[0]} and" in uncertain


def test_a_predicted_trial_shows_what_the_true_numbers_should_lie_between(predicted, shown):
    trial = predicted.maximum

    report = shown(print_trial, predicted.request, predicted.info, trial)

    for label, name in (("allocated", "peak_allocated_bytes"), ("reserved", "peak_reserved_bytes")):
        low, high = trial.intervals[name]
        expected = f"{format_bytes(getattr(trial, name))}  ({format_bytes(low)} to {format_bytes(high)})"
        assert expected in row(report, "peak", label)
    low, high = trial.intervals["device_bytes"]
    assert f"({format_bytes(low)} to {format_bytes(high)})" in row(report, "device")
    low, high = (1e3 * end for end in trial.intervals["step_seconds"])
    assert f"ms ({low:.0f} to {high:.0f} ms)" in row(report, "step")
    assert "Predicted, nothing was run" in report


def test_a_measured_trial_has_no_intervals_in_its_report(result, shown):
    allocated = result.maximum.peak_allocated_bytes

    report = shown(print_trial, result.request, result.info, result.maximum)

    assert row(report, "peak", "allocated").split() == ["peak", "allocated", *format_bytes(allocated).split()]
    assert "nothing was run" not in report


def test_a_comparison_has_a_row_for_each_gpu_and_names_the_fastest_and_the_cheapest(predicted, shown):
    def on(gpu, speed):
        about = {"samples_per_second": (speed / 2, 2 * speed)}
        trials = [
            replace(t, samples_per_second=speed, intervals=about) if t.samples_per_second else t
            for t in predicted.trials
        ]
        return replace(
            predicted, trials=trials, info=replace(predicted.info, device_name=find_gpu(gpu).name, gpu_id=gpu)
        )

    # All sizes are as fast, so that the smallest is the one worth using.
    compared = ("b200", "l4", "l40s", "rtx3090")
    comparison = Comparison(predicted.request, {"b200": on("b200", 20000.0), "l4": on("l4", 1000.0)}, compared)

    report = shown(print_comparison, comparison)

    largest = str(predicted.max_batch_size)
    assert f"BERT base (small stand-in)  {predicted.info.sample} · fp32, AdamW · 4 GPUs · predicted" in report
    assert all(name in report for name in ("B200", "L4", "L40S", "RTX 3090"))
    assert row(report, "B200").split() == ["B200", largest, "2", "1,280,000", "fastest"]
    assert row(report, "L4").split() == ["L4", largest, "2", "64,000", "0.136", "$0.49/h", "cheapest"]
    assert row(report, "L40S").split() == ["L40S", "does", "not", "fit"]
    assert "Predicted, nothing was run" in report


def test_on_a_narrow_terminal_nothing_of_a_prediction_is_cut_off(predicted, shown):
    comparison = Comparison(predicted.request, {gpu.id: predicted for gpu in all_gpus()})

    reports = [shown(print_analysis, predicted, columns=80), shown(print_comparison, comparison, columns=80)]

    assert not any("…" in report for report in reports)
    assert all("nothing was run" in report for report in reports)


def test_one_gpu_can_be_the_fastest_and_the_cheapest(predicted, shown):
    report = shown(print_comparison, Comparison(predicted.request, {"a10": predicted}, ("t4", "a10", "l4")))

    assert "fastest, cheapest" in row(report, "A10")
    assert report.count("does not fit") == 2


def test_of_very_many_gpus_the_table_has_those_with_a_price_and_the_fastest_unless_all_are_asked_for(predicted, shown):
    everyone = [gpu for gpu in all_gpus() if not gpu.memory_only]
    small = {"rtx2060", "t4"}
    analyses = {
        gpu.id: replace(predicted, info=replace(predicted.info, gpu_id=gpu.id))
        for gpu in everyone
        if gpu.id not in small
    }
    comparison = Comparison(predicted.request, analyses, tuple(gpu.id for gpu in everyone))

    report, full = shown(print_comparison, comparison), shown(print_comparison, comparison, every_gpu=True)

    def rows(text):
        names = {gpu.id: gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ") for gpu in everyone}
        return {gpu for gpu, name in names.items() if re.search(rf"^ +{re.escape(name)}  ", text, re.MULTILINE)}

    assert rows(report) >= {gpu.id for gpu in everyone if gpu.price} - small
    assert len(rows(report)) < 25
    assert f"{len(everyone) - 2 - len(rows(report))} more GPUs can train it; --every-gpu shows them" in report
    assert "Too small: T4, RTX 2060." in " ".join(report.split())
    assert len(rows(full)) == len(everyone)


def test_a_check_of_the_prediction_shows_measured_beside_predicted(predicted, shown):
    guess = predicted.maximum
    real = replace(guess, peak_allocated_bytes=guess.peak_allocated_bytes * 100 // 99, samples_per_second=1234.5)
    check = PredictionCheck(
        predicted.request, predicted.info, [(real, guess)], measured_maximum=200, predicted_maximum=190
    )

    report = shown(print_prediction_check, check)

    shown_row = row(report, str(guess.batch_size))
    assert "-1.00 %" in shown_row
    assert "79,008" in shown_row
    assert f"{64 * guess.samples_per_second:,.0f}" in shown_row
    assert "Largest batch: 200 measured, 190 predicted (-5.0 %)." in report


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


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (
            "h200",
            "allocated memory may be off by 1 %, reserved memory by 10 %; the true speed may be 0.8 to 1.2 times what "
            "is predicted (docs/benchmarks.md)",
        ),
        (
            "l4",
            "allocated memory may be off by 1.5 %, reserved memory by 15 %; the true speed may be 0.7 to 1.3 times "
            "what is predicted; memory was checked on an H200, not on the L4, and times on what others published for "
            "it (docs/benchmarks.md)",
        ),
        (
            "a10",
            "allocated memory may be off by 1.5 %, reserved memory by 15 %; the true speed may be 0.7 to 1.4 times "
            "what is predicted; memory was checked on an H200, not on the A10 (docs/benchmarks.md)",
        ),
    ],
)
def test_how_far_a_prediction_may_be_off_is_that_of_its_gpu(predicted, gpu, said):
    (note,) = prediction_notes(replace(predicted.info, gpu_id=gpu, unknown_operations=()))

    assert note == f"Predicted, nothing was run: {said}."


NO_BF16 = "The NVIDIA T4 has no hardware support for bf16 and is slow with it: use --precision fp16."
NO_TF32 = "The NVIDIA V100 16 GB does not support TF32: --tf32 has no effect."


@pytest.mark.parametrize(
    ("gpu", "recipe", "said"),
    [
        ("t4", {"precision": "bf16"}, [NO_BF16]),
        ("v100-16gb", {"tf32": True}, [NO_TF32]),
        ("t4", {"precision": "fp16"}, []),
        ("a10", {"precision": "bf16"}, []),
        ("a10", {"tf32": True}, []),
        (None, {"precision": "bf16"}, []),
    ],
)
def test_what_a_gpu_s_generation_lacks_is_said(predicted, gpu, recipe, said):
    request = replace(predicted.request, recipe=mm.Recipe(**recipe))
    found = notes(replace(predicted, request=request, info=replace(predicted.info, gpu_id=gpu)))

    assert [note for note in found if note in (NO_BF16, NO_TF32)] == said

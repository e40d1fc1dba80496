import math
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.answer import answer, measure, predict
from memorymark.events import StageStarted, TrialFinished
from memorymark.units import GIB, MIB

CAP_BYTES = 30 * MIB
MARGIN = 0.25
USAGE = mm.Usage(hours_per_run=3, runs_per_year=20, people=5)
USD_PER_HOUR = 1.5
# What the HTTP interface publishes as `data`, and the command line as JSON.
PUBLISHED = [
    "model_name", "device", "gpu_name", "gpu_total_gb", "optimal_batch_size", "optimal_memory_gb", "current_batch_size",
    "current_memory_gb", "waste_gb", "waste_percent", "speedup", "cost_savings_per_run", "cost_savings_annual",
    "results", "max_batch_size", "recommended_batch_size", "current_waste_gb", "current_waste_percent", "batch_ratio",
    "source", "breakdown", "recipe", "margin", "price",
]  # fmt: skip
ROW = ["batch_size", "memory_mb", "memory_gb", "success", "error", "samples_per_second"]  # as published
ROW += ["step_seconds", "tokens_per_batch", "tokens_per_second"]


def request(cap_bytes=CAP_BYTES, **recipe):
    target = mm.Target(device="cpu", memory_cap_bytes=cap_bytes)
    return mm.Request(model="bert", recipe=mm.Recipe(**recipe), target=target)


def analyze(request, *, time_limit_seconds=600, on_event=lambda _: None, **asked):
    question = mm.Question(request=request, **asked)
    return answer(question, time_limit_seconds=time_limit_seconds, on_event=on_event)


@pytest.fixture(scope="module")
def events():
    return []


@pytest.fixture(scope="module")
def result(events):
    return analyze(
        request(),
        current_batch_size=2,
        margin=MARGIN,
        usage=USAGE,
        price_per_hour=USD_PER_HOUR,
        on_event=events.append,
    )


@pytest.fixture(scope="module")
def document(result):
    return result.to_dict()


def test_every_published_field_is_there(document):
    assert set(PUBLISHED) <= set(document)
    assert all(list(row) == ROW for row in document["results"])


def test_the_document_says_what_was_asked_and_what_it_ran_on(document):
    assert (document["model_name"], document["device"], document["gpu_name"]) == ("bert", "cpu", "CPU")
    assert document["gpu_total_gb"] == CAP_BYTES / GIB
    assert document["capacity_bytes"] == CAP_BYTES
    assert document["recipe"] == mm.Recipe().to_dict()
    assert document["margin"] == MARGIN
    assert document["usage"] == USAGE.to_dict()
    assert document["price"]["usd_per_hour"] == USD_PER_HOUR
    assert (document["source"], document["small"], document["sample"]) == ("measured", True, "64 tokens")
    assert document["versions"].keys() == {"torch", "transformers", "cuda"}


def test_the_maximum_ran_and_the_next_size_failed(document):
    rows = {row["batch_size"]: row for row in document["results"]}
    largest = document["max_batch_size"]

    assert document["optimal_batch_size"] == largest > 2
    assert rows[largest]["success"]
    assert not rows[largest + 1]["success"]
    assert "out of memory" in rows[largest + 1]["error"]
    assert (document["max_is_exact"], document["limited_by"]) == (True, "memory")
    assert document["batch_ratio"] == largest / 2


def test_used_and_wasted_make_the_whole(document):
    total = document["gpu_total_gb"]

    assert document["optimal_memory_gb"] + document["waste_gb"] == pytest.approx(total)
    assert document["current_memory_gb"] + document["current_waste_gb"] == pytest.approx(total)
    assert document["waste_percent"] == pytest.approx(100 * document["waste_gb"] / total)
    assert document["current_waste_percent"] == pytest.approx(100 * document["current_waste_gb"] / total)
    assert document["waste_gb"] < document["current_waste_gb"]


def test_the_breakdown_is_of_the_maximum_and_adds_up(document):
    total = sum(document["breakdown"].values())

    assert total / GIB == pytest.approx(document["optimal_memory_gb"])
    assert min(document["breakdown"].values()) >= 0
    assert document["breakdown"]["weights_bytes"] > 0
    assert document["breakdown"]["activations_bytes"] > 0


def test_rows_agree_with_the_trials_behind_them(document):
    last = {trial["batch_size"]: trial for trial in document["trials"]}

    assert [row["batch_size"] for row in document["results"]] == sorted(last)
    for row in document["results"]:
        trial = last[row["batch_size"]]
        assert row["success"] == trial["fits"]
        assert row["samples_per_second"] == trial["samples_per_second"]
        if row["success"]:
            assert row["memory_mb"] * MIB == pytest.approx(trial["peak_allocated_bytes"])
            assert row["memory_gb"] * 1024 == pytest.approx(row["memory_mb"])


def test_the_speedup_is_the_ratio_of_throughputs(document):
    speeds = {row["batch_size"]: row["samples_per_second"] for row in document["results"]}

    assert document["speedup"] == speeds[document["recommended_batch_size"]] / speeds[2]


def test_savings_are_the_cost_of_the_time_saved(document):
    per_run = USD_PER_HOUR * USAGE.hours_per_run * (1 - 1 / document["speedup"])

    assert document["cost_savings_per_run"] == pytest.approx(per_run)
    assert document["cost_savings_annual"] == pytest.approx(per_run * USAGE.runs_per_year * USAGE.people)


def test_the_recommended_size_keeps_the_margin(result):
    assert result.recommended.peak_reserved_bytes <= (1 - MARGIN) * CAP_BYTES
    assert result.maximum.peak_reserved_bytes > (1 - MARGIN) * CAP_BYTES


def test_a_size_near_the_margin_was_timed(result):
    safe = [t for t in result.curve if t.samples_per_second and t.peak_reserved_bytes <= (1 - MARGIN) * CAP_BYTES]

    assert max(trial.peak_reserved_bytes for trial in safe) > 0.9 * (1 - MARGIN) * CAP_BYTES


def test_events_tell_the_stages_in_order_and_every_trial_in_its_stage(result, events):
    stages = [event.stage for event in events if isinstance(event, StageStarted)]
    told = [event.stage for event in events]
    trials = [event for event in events if isinstance(event, TrialFinished)]

    assert stages == ["start", "search", "search", "throughput"]
    assert told == sorted(told, key=stages.index)
    assert [event.trial for event in trials] == result.trials
    assert {event.trial.samples_per_second is None for event in trials if event.stage == "search"} == {True}


def test_the_seconds_of_the_stages_make_the_whole(result):
    parts = {name: seconds for name, seconds in result.seconds.items() if name != "total"}

    assert parts.keys() == {"import", "device", "build", "start", "search", "throughput"}
    assert all(seconds >= 0 for seconds in parts.values())
    assert sum(parts.values()) <= result.seconds["total"]


def test_the_search_goes_no_further_than_the_caller_wants():
    result = analyze(request(optimizer="sgd"), current_batch_size=64, max_batch=3)

    assert result.max_batch_size == 3
    assert max(trial.batch_size for trial in result.trials) == 3
    assert (result.limited_by, result.max_is_exact) == ("caller", False)
    assert result.current is result.speedup is result.savings is None
    assert result.to_dict()["current_memory_gb"] is None


def test_a_model_that_does_not_fit_says_by_how_much_and_keeps_what_was_tried():
    events = []

    with pytest.raises(
        mm.DoesNotFitError, match=r"within 10\.0 MiB even at batch 1, by .* or more; .*shorter"
    ) as caught:
        analyze(request(cap_bytes=10 * MIB), on_event=events.append)

    trials = [event.trial for event in events if isinstance(event, TrialFinished)]
    assert caught.value.trials == trials
    assert trials[-1].batch_size == 1
    assert not any(trial.fits for trial in trials)
    weights_gradients_and_state = 16 * 741_506
    assert (
        caught.value.shortfall_bytes == weights_gradients_and_state - 10 * MIB > trials[-1].failure.shortfall_bytes > 0
    )
    assert caught.value.exit_code == 3
    assert caught.value.suggestions is None  # nothing is predicted for a CPU


def test_weights_that_do_not_fit_are_said_to_be_the_reason():
    with pytest.raises(mm.DoesNotFitError, match=r"the weights of bert alone exceed the 1\.0 MiB") as caught:
        analyze(request(cap_bytes=MIB))

    assert caught.value.shortfall_bytes > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"current_batch_size": 0}, "batch_size= must be 1 or more, not 0"),
        ({"max_batch": -1}, "max_batch= must be 1 or more, not -1"),
        ({"margin": 1}, "margin= must be from 0 to below 1, not 1"),
        ({"margin": -0.1}, "margin= must be from 0"),
        ({"margin": math.nan}, "margin= must be from 0 to below 1, not nan"),
        ({"price_per_hour": -1}, "price_per_hour= must be 0 or more, not -1"),
        ({"price_per_hour": math.nan}, "price_per_hour= must be 0 or more, not nan"),
        ({"time_limit_seconds": -1}, "time_limit= must be"),
    ],
    ids=str,
)
def test_misuse_is_refused_before_anything_starts(options, said):
    events = []

    with pytest.raises(mm.UsageError, match=said):
        analyze(request(cap_bytes=MIB), **options, on_event=events.append)

    assert events == []


def targeting(**target):
    return mm.Request(model="bert", small=True, target=mm.Target(**target))


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_a_device_that_is_no_cuda_gpu_is_not_predicted_for(device):
    with pytest.raises(mm.UsageError, match=f"only CUDA GPUs can be predicted, not {device}; name one with gpu="):
        predict(targeting(device=device), 8)


def test_measure_is_refused_for_a_gpu_that_is_only_named():
    with pytest.raises(mm.UsageError, match="measure runs on a device of this machine"):
        measure(targeting(gpu="a10"), 8)


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ({"gpu": "a10"}, {}, "drop gpu=, device= and memory_gib="),
        ({"device": "cuda"}, {}, "drop gpu=, device= and memory_gib="),
        ({"memory_cap_bytes": GIB}, {}, "drop gpu=, device= and memory_gib="),
        ({}, {"current_batch_size": 0}, "batch_size= must be 1 or more, not 0"),
        ({}, {"max_batch": -1}, "max_batch= must be 1 or more, not -1"),
        ({}, {"margin": 1}, "margin= must be from 0 to below 1, not 1"),
        ({}, {"time_limit_seconds": 0}, "time_limit= must be"),
    ],
    ids=str,
)
def test_misuse_with_all_gpus_is_refused_before_anything_starts(target, options, said):
    events = []

    with pytest.raises(mm.UsageError, match=said):
        analyze(targeting(**target), all_gpus=True, **options, on_event=events.append)

    assert events == []


def test_what_is_predicted_not_to_fit_says_by_how_much_and_what_would_help():
    events = []
    asked = targeting(gpu="a10", memory_cap_bytes=20 * MIB)

    with pytest.raises(
        mm.DoesNotFitError, match=r"within 20\.0 MiB even at batch 1, by [\d.]+ MiB; it is pred"
    ) as caught:
        analyze(replace(asked, recipe=mm.Recipe(optimizer="adam")), on_event=events.append)

    trials = [event.trial for event in events if isinstance(event, TrialFinished)]
    assert caught.value.suggestions[-1].change == {"memory_gib": None}
    assert all(one.phrase in str(caught.value) for one in caught.value.suggestions)
    assert [event.stage for event in events][-1] == "suggest"
    assert caught.value.trials == trials
    assert {(trial.source, trial.fits) for trial in trials} == {("predicted", False)}
    assert caught.value.shortfall_bytes == trials[-1].failure.shortfall_bytes > 0


def test_measure_gives_one_full_trial():
    info, trial = measure(request(), 4)

    assert (info.device_kind, info.capacity_bytes) == ("cpu", CAP_BYTES)
    assert (trial.batch_size, trial.fits) == (4, True)
    assert trial.breakdown.total_bytes == trial.device_bytes
    assert trial.samples_per_second == pytest.approx(4 / trial.step_seconds)

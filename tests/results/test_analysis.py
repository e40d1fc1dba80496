import json
from dataclasses import replace

import pytest

from memorymark.catalog import Price, find_gpu
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.usage import Usage
from memorymark.render.words import why_smaller
from memorymark.results.analysis import Analysis
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Breakdown, Failure, Trial
from memorymark.units import GIB


def trial(size, allocated_gib, speed=None, **facts):
    return Trial(
        batch_size=size,
        fits=True,
        peak_allocated_bytes=int(allocated_gib * GIB),
        peak_reserved_bytes=int(allocated_gib * GIB),
        device_bytes=int(allocated_gib * GIB) + 17 * GIB // 4,
        samples_per_second=speed,
        **facts,
    )


def failed(size, kind="memory"):
    return Trial(batch_size=size, fits=False, failure=Failure(kind, "it does not fit", 3 * GIB, GIB))


SEARCHED = [trial(4, 2), trial(64, 19), failed(65)]
TIMED = [
    trial(64, 19.5, 100, breakdown=Breakdown(weights_bytes=GIB, activations_bytes=18 * GIB)),
    trial(48, 15, 98),
    trial(16, 5, 50),
]


def analysis(**changes):
    """A GPU of 24 GiB of which the allocator can have 20; 48 is recommended, and twice as fast as 16."""
    info = ProbeInfo(
        device_kind="cuda",
        device_name="NVIDIA A10",
        gpu_id="a10",
        total_bytes=24 * GIB,
        capacity_bytes=20 * GIB,
        capped=changes.pop("capped", False),
        parameters=1,
    )
    facts = {
        "request": Request(model="bert"),
        "info": info,
        "trials": SEARCHED + TIMED,
        "max_batch_size": 64,
        "current_batch_size": 16,
        "margin": 0.05,
        "usage": Usage(hours_per_run=3, runs_per_year=10, people=2),
        "price": Price(2.0, "lambda", "2026-08-03"),
    }
    return Analysis(**{**facts, **changes})


def test_the_curve_has_the_last_trial_of_each_size_smallest_first():
    curve = analysis().curve

    assert [t.batch_size for t in curve] == [4, 16, 48, 64, 65]
    assert analysis().maximum == TIMED[0]


def test_the_margin_decides_what_is_recommended():
    faster_at_the_top = [trial(64, 19.5, 100), trial(48, 15, 80), trial(16, 5, 50)]

    assert analysis(trials=faster_at_the_top, margin=0.05).recommended.batch_size == 48
    assert analysis(trials=faster_at_the_top, margin=0.02).recommended.batch_size == 64


def test_speedup_is_of_measured_throughput_and_the_batch_ratio_is_of_sizes():
    assert analysis().recommended.batch_size == 48
    assert analysis().speedup == 98 / 50
    assert analysis().batch_ratio == 64 / 16


@pytest.mark.parametrize(
    "changes",
    [{"current_batch_size": 128}, {"current_batch_size": 65}, {"trials": SEARCHED}, {"margin": 0.9}],
    ids=["current was not tried", "current fails", "nothing was timed", "nothing keeps the margin"],
)
def test_there_is_no_speedup_and_no_saving_without_both_throughputs(changes):
    assert analysis(**changes).speedup is None
    assert analysis(**changes).savings is None


def test_the_speedup_of_a_prediction_is_as_uncertain_as_such_ratios_were():
    timed = [replace(one, source="predicted") for one in (*SEARCHED, *TIMED)]
    found = analysis(trials=timed, current_batch_size=16)
    low, high = found.speedup_interval

    assert (low, high) == pytest.approx((found.speedup * 0.7**1.5, found.speedup * 1.3**1.5))
    assert found.to_dict()["speedup_interval"] == [low, high]


def test_the_speedup_of_a_measurement_is_as_uncertain_as_its_steps_differ():
    timed = [replace(one, step_seconds_spread=0.03 if one.batch_size == 16 else 0.04) for one in TIMED]
    found = analysis(trials=SEARCHED + timed)

    assert found.speedup_interval == pytest.approx((found.speedup * 0.975, found.speedup * 1.025))


def test_a_batch_is_exactly_as_fast_as_itself():
    assert analysis(current_batch_size=48).speedup_interval == (1.0, 1.0)
    assert analysis(current_batch_size=128).speedup_interval is None


@pytest.mark.parametrize(
    ("current", "changes", "why"),
    [
        (16, {}, None),
        (48, {}, None),
        (65, {}, "does_not_fit"),
        (128, {}, "does_not_fit"),
        (128, {"trials": [trial(4, 2), *TIMED]}, "not_tried"),
        (64, {"trials": [failed(65), trial(64, 10, 98), trial(48, 9, 98), trial(16, 5, 50)]}, "as_fast"),
        (64, {}, "margin"),
        (64, {"trials": [failed(65), trial(64, 10, 60), trial(48, 9, 98), trial(16, 5, 50)]}, "thrashing"),
    ],
)
def test_less_than_todays_batch_is_recommended_for_a_reason(current, changes, why):
    found = analysis(current_batch_size=current, **changes)

    assert found.recommended.batch_size == 48
    assert found.smaller_because == found.to_dict()["smaller_because"] == why
    assert bool(why_smaller(found)) == (why is not None)


def test_less_than_todays_batch_is_recommended_where_todays_may_not_fit():
    found = replace(predicted(trials=[failed(65), trial(64, 10, 98), trial(48, 9, 97.9)]), current_batch_size=64)

    assert found.max_batch_interval[0] < 64
    assert found.smaller_because == "uncertain"
    assert "may not fit" in why_smaller(found)


def test_savings_come_from_the_price_the_usage_and_the_speedup():
    saved = analysis().savings

    assert saved.per_run_usd == pytest.approx(2.0 * 3 * (1 - 50 / 98))
    assert saved.per_year_usd == pytest.approx(20 * saved.per_run_usd)
    assert analysis(price=None).savings is None


@pytest.mark.parametrize(
    ("capped", "target_gib", "held_gib"),
    [(False, 24, 9.25), (True, 20, 5)],
    ids=["the whole GPU", "a cap of 20 GiB"],
)
def test_waste_is_what_the_gpu_does_not_hold_and_under_a_cap_what_is_not_reserved(capped, target_gib, held_gib):
    found = analysis(capped=capped)
    waste = found.waste(trial(16, 5))

    assert waste.unused_bytes == (target_gib - held_gib) * GIB
    assert waste.fraction == (target_gib - held_gib) / target_gib
    assert found.info.held_bytes(trial(16, 5)) + waste.unused_bytes == found.target_bytes


def test_waste_is_never_negative():
    assert analysis().waste(trial(64, 21)).unused_bytes == 0


def test_the_document_has_the_published_numbers_in_their_units():
    document = analysis().to_dict()

    assert document["model_name"] == "bert"
    assert document["gpu_total_gb"] == 24
    assert (document["optimal_batch_size"], document["optimal_memory_gb"]) == (64, 19.5)
    assert document["max_batch_size"] == document["optimal_batch_size"]
    assert (document["current_batch_size"], document["current_memory_gb"]) == (16, 5)
    assert (document["waste_gb"], document["current_waste_gb"]) == (0.25, 14.75)
    assert document["waste_percent"] == pytest.approx(100 * 0.25 / 24)
    assert document["current_waste_percent"] == pytest.approx(100 * 14.75 / 24)
    assert document["recommended_waste_gb"] == 4.75
    assert document["recommended_waste_percent"] == pytest.approx(100 * 4.75 / 24)
    assert document["recommended_batch_size"] == 48
    assert document["cost_savings_annual"] == pytest.approx(20 * document["cost_savings_per_run"])
    assert document["breakdown"]["activations_bytes"] == 18 * GIB
    assert document["source"] == "measured"


def test_a_failed_size_is_a_row_with_its_reason_and_without_memory():
    rows = {row["batch_size"]: row for row in analysis().to_dict()["results"]}

    assert rows[65] == {
        "batch_size": 65,
        "memory_mb": None,
        "memory_gb": None,
        "success": False,
        "error": "it does not fit",
        "samples_per_second": None,
        "step_seconds": None,
        "tokens_per_batch": None,
        "tokens_per_second": None,
    }
    assert (rows[16]["memory_mb"], rows[16]["memory_gb"], rows[16]["success"]) == (5 * 1024, 5, True)


@pytest.mark.parametrize("current", [65, 128], ids=["failed", "not tried"])
def test_a_current_size_that_does_not_fit_has_no_memory_and_no_waste(current):
    document = analysis(current_batch_size=current).to_dict()

    assert document["current_memory_gb"] is None
    assert document["current_waste_gb"] is None
    assert document["current_waste_percent"] is None


def test_the_document_survives_json_and_its_trials_can_be_read_back():
    document = analysis().to_dict()

    read = json.loads(json.dumps(document))

    assert read == document
    assert [Trial.from_dict(t) for t in read["trials"]] == SEARCHED + TIMED


@pytest.mark.parametrize("kind", ["memory", "limit"])
def test_the_failure_of_the_next_size_is_what_limits(kind):
    result = analysis(trials=[failed(66, "memory"), failed(65, kind), *TIMED])

    assert result.limited_by == kind
    assert result.max_is_exact


def test_without_a_failure_of_the_next_size_the_caller_set_the_limit():
    result = analysis(trials=[trial(4, 2), *TIMED])

    assert result.limited_by == "caller"
    assert not result.max_is_exact


A_QUARTER_GIB_EACH = [trial(64, 19, resting_bytes=3 * GIB), failed(65)]


def predicted(gpu="h200", *, unknown=(), capped=True, trials=A_QUARTER_GIB_EACH):
    result = analysis(capped=capped, trials=[replace(t, source="predicted") for t in trials])
    facts = {"device_name": find_gpu(gpu).name, "gpu_id": gpu, "source": "predicted", "unknown_operations": unknown}
    return replace(result, info=replace(result.info, **facts))


def test_a_maximum_that_was_run_has_no_interval():
    assert analysis().max_batch_interval is analysis().to_dict()["max_batch_interval"] is None


def test_a_predicted_maximum_lies_in_an_interval_of_the_errors_seen():
    assert predicted().max_batch_interval == (62, 66)
    assert predicted().to_dict()["max_batch_interval"] == [62, 66]


@pytest.mark.parametrize(
    ("facts", "interval"),
    [
        ({}, (627, 653)),
        ({"gpu": "h100"}, (620, 660)),
        ({"unknown": ("aten.sort.default",)}, (614, 666)),
        ({"gpu": "h100", "unknown": ("aten.sort.default",)}, (601, 679)),
    ],
    ids=["as measured", "another GPU", "an unknown operation", "both"],
)
def test_the_interval_is_wider_where_less_was_measured(facts, interval):
    large = [trial(640, 19, resting_bytes=3 * GIB), failed(641)]
    assert replace(predicted(**facts, trials=large), max_batch_size=640).max_batch_interval == interval


def test_without_a_cap_the_context_may_leave_room_for_fewer_or_more():
    assert find_gpu("b200").context_bytes == tuple(mib * 2**20 for mib in (600, 850, 1100))
    assert predicted("b200").max_batch_interval == (62, 66)
    assert predicted("b200", capped=False).max_batch_interval == (61, 67)


def test_where_the_caller_set_the_limit_a_prediction_has_no_interval():
    assert predicted(trials=[trial(64, 19)]).max_batch_interval is None


def test_the_code_to_paste_has_the_recommended_batch_and_the_recipe():
    request = Request(model="bert", recipe=Recipe(precision="bf16", accumulation_steps=4))
    code = analysis(request=request).to_dict()["code"]

    assert "BATCH_SIZE = 48\nACCUMULATION_STEPS = 4\n" in code["pytorch"]
    assert "per_device_train_batch_size=48,\n    gradient_accumulation_steps=4," in code["transformers"]
    assert "BATCH_SIZE = 48\n" in code["lightning"]
    assert 'precision="bf16-mixed", accumulate_grad_batches=4' in code["lightning"]


def test_without_a_recommended_batch_the_code_has_the_largest():
    result = analysis(margin=0.9)

    assert result.recommended is None
    assert "BATCH_SIZE = 64\n" in result.code.pytorch

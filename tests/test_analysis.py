import json
from dataclasses import replace

import pytest

from memorymark.analysis import Analysis
from memorymark.catalog import Price, find_gpu
from memorymark.cost import Usage
from memorymark.probe import ProbeInfo
from memorymark.recipe import Recipe
from memorymark.request import Request
from memorymark.trial import Breakdown, Failure, Trial
from memorymark.units import GIB


def trial(size, allocated_gib, speed=None, **facts):
    return Trial(
        batch_size=size,
        fits=True,
        peak_allocated_bytes=int(allocated_gib * GIB),
        peak_reserved_bytes=int(allocated_gib * GIB),
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


def test_savings_come_from_the_price_the_usage_and_the_speedup():
    saved = analysis().savings

    assert saved.per_run_usd == pytest.approx(2.0 * 3 * (1 - 50 / 98))
    assert saved.per_year_usd == pytest.approx(20 * saved.per_run_usd)
    assert analysis(price=None).savings is None


@pytest.mark.parametrize(("capped", "target_gib"), [(False, 24), (True, 20)], ids=["the whole GPU", "a cap of 20 GiB"])
def test_waste_is_what_the_tensors_could_have_had_as_a_part_of_the_target(capped, target_gib):
    waste = analysis(capped=capped).waste(trial(16, 5))

    assert waste.unused_bytes == 15 * GIB
    assert waste.fraction == 15 / target_gib


def test_waste_is_never_negative():
    assert analysis().waste(trial(64, 21)).unused_bytes == 0


def test_the_document_has_the_published_numbers_in_their_units():
    document = analysis().to_dict()

    assert document["model_name"] == "bert"
    assert document["gpu_total_gb"] == 24
    assert (document["optimal_batch_size"], document["optimal_memory_gb"]) == (64, 19.5)
    assert document["max_batch_size"] == document["optimal_batch_size"]
    assert (document["current_batch_size"], document["current_memory_gb"]) == (16, 5)
    assert (document["waste_gb"], document["current_waste_gb"]) == (0.5, 15)
    assert document["waste_percent"] == pytest.approx(100 * 0.5 / 24)
    assert document["current_waste_percent"] == pytest.approx(100 * 15 / 24)
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
    facts = {"device_name": find_gpu(gpu).name, "source": "predicted", "unknown_operations": unknown}
    return replace(result, info=replace(result.info, **facts))


def test_a_maximum_that_was_run_has_no_interval():
    assert analysis().max_batch_interval is analysis().to_dict()["max_batch_interval"] is None


def test_a_predicted_maximum_lies_in_an_interval_of_the_errors_seen():
    assert predicted().max_batch_interval == (62, 66)
    assert predicted().to_dict()["max_batch_interval"] == (62, 66)


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

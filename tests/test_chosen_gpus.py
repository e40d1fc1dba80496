"""Several GPUs, a GPU of one's own, and one's own prices, from Python."""

import json

import pytest

import memorymark as mm
from support.own_gpu import LAB
from support.tiny import tiny


@pytest.fixture(scope="module")
def compared():
    return mm.analyze(
        tiny(),
        gpu=[LAB, "l4", "RTX 3090", "mi300x"],
        prices={"L4": 0.4, "Lab GPU": 0.2},
        samples=1_000_000,
        max_batch=64,
        margin=0.5,
    )


def test_a_comparison_of_named_gpus_has_these_and_no_others(compared):
    assert {one.gpu_id for one in compared.contenders} == {"labgpu", "l4", "rtx3090", "mi300x"}
    assert all(one.fits for one in compared.contenders)


def test_own_prices_are_in_the_cost_of_a_million_samples_and_of_the_whole_run(compared):
    by_id = {one.gpu_id: one for one in compared.contenders}

    for gpu, price in (("l4", 0.4), ("labgpu", 0.2)):
        hours = 1e6 / by_id[gpu].samples_per_second / 3600
        assert by_id[gpu].whole_run.hours == pytest.approx(hours)
        assert by_id[gpu].whole_run.usd == pytest.approx(price * hours)
        assert by_id[gpu].usd_per_million_samples == pytest.approx(price * hours)
        assert compared.analyses[gpu].price.provider == "as given"
    assert by_id["rtx3090"].whole_run.usd is None
    assert compared.to_dict()["unpriced"] == ["rtx3090"]


def test_of_an_amd_gpu_there_are_peaks_and_a_largest_batch_but_no_time_and_no_money(compared):
    amd = next(one for one in compared.contenders if one.memory_only)
    found = compared.analyses["mi300x"]

    assert (amd.gpu_id, amd.max_batch_size) == ("mi300x", 64)
    assert amd.samples_per_second is amd.recommended_batch_size is amd.usd_per_million_samples is amd.whole_run is None
    assert found.info.memory_only
    assert found.maximum.peak_allocated_bytes > 0
    assert found.recommended is found.speedup is found.savings is None
    assert "mi300x" not in compared.to_dict()["fastest_candidates"]


def test_a_comparison_of_named_gpus_goes_through_json(compared):
    read = mm.Comparison.from_dict(json.loads(json.dumps(compared.to_dict())))

    assert read.to_dict() == compared.to_dict()


def test_a_gpu_of_ones_own_is_predicted_for_from_a_file(tmp_path):
    file = tmp_path / "lab.json"
    file.write_text(json.dumps(LAB | {"usd_per_hour": 0.3}))

    found = mm.analyze(tiny(), gpu=file, max_batch=4)
    trial = mm.predict(tiny(), 4, gpu=str(file))

    assert (found.gpu_name, found.info.gpu_id, found.price.usd_per_hour) == ("Lab GPU", "labgpu", 0.3)
    assert mm.Analysis.from_dict(json.loads(json.dumps(found.to_dict()))).info.gpu.name == "Lab GPU"
    assert trial.peak_allocated_bytes == found.maximum.peak_allocated_bytes


def test_own_prices_count_for_one_gpu_too():
    assert mm.analyze(tiny(), gpu="l4", max_batch=4, prices={"l4": 0.1, "a10": 9}).price.usd_per_hour == 0.1
    assert mm.analyze(tiny(), gpu="t4", max_batch=4, prices={"l4": 0.1}).price.provider != "as given"

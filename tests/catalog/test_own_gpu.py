"""A GPU that the caller describes."""

import json
from pathlib import Path

import pytest

from memorymark.catalog import all_gpus, find_gpu, gpus, own_gpu
from memorymark.errors import UsageError
from memorymark.units import GIB, MIB
from support.own_gpu import LAB


def test_what_is_left_out_is_what_a_geforce_card_of_that_generation_has():
    lab, real = own_gpu(LAB), find_gpu("rtx3090")

    assert (lab.id, lab.name, lab.price, lab.memory_estimated) == ("labgpu", "Lab GPU", None, True)
    assert lab.fp32_flops == pytest.approx(real.fp32_flops, rel=0.01)
    assert lab.half_flops == pytest.approx(real.half_flops, rel=0.01)
    assert lab.tf32_flops == lab.fp32_flops
    assert lab.torch_memory_bytes == pytest.approx(real.torch_memory_bytes, rel=0.02)
    assert lab.bytes_per_second == real.bytes_per_second


def test_what_is_given_counts():
    given = {
        "id": "mine",
        "torch_memory_mib": 24000,
        "context_mib": [100, 200, 300],
        "half_tflops": 50,
        "usd_per_hour": 0,
    }
    lab = own_gpu(LAB | given)

    assert (lab.id, lab.torch_memory_bytes, lab.half_flops) == ("mine", 24000 * MIB, 50e12)
    assert lab.context_bytes == (100 * MIB, 200 * MIB, 300 * MIB)
    assert (lab.price.usd_per_hour, lab.price.provider) == (0, "as given")


def test_of_a_gpu_with_memory_only_no_rates_are_needed():
    rates = ("boost_clock_mhz", "bandwidth_gb_per_second")

    assert own_gpu({name: LAB[name] for name in LAB if name not in rates} | {"memory_only": True}).memory_only


@pytest.mark.parametrize("field", LAB)
def test_a_field_that_is_missing_is_named(field):
    with pytest.raises(UsageError, match=rf"lacks {field}: ") as caught:
        own_gpu({name: LAB[name] for name in LAB if name != field})

    assert (caught.value.code, caught.value.field, caught.value.exit_code) == ("missing", "gpu", 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"memory_mib": "24 GB"}, "memory_mib of a GPU must be a whole number above 0, not '24 GB'"),
        ({"memory_mib": -1}, "memory_mib of a GPU must be"),
        ({"memory_mib": float("nan")}, "memory_mib of a GPU must be"),
        ({"multiprocessors": 82.5}, "multiprocessors of a GPU must be a whole number"),
        ({"multiprocessors": True}, "multiprocessors of a GPU must be a whole number"),
        ({"compute_capability": 8.6}, "compute_capability of a GPU must be a compute capability of 7.0 or later"),
        ({"compute_capability": "6.1"}, "compute_capability of a GPU must be"),
        ({"context_mib": [500, 400, 300]}, "context_mib of a GPU must be three numbers"),
        ({"torch_memory_mib": 30000}, "torch_memory_mib of a GPU must not be above"),
        ({"memory_mib": 401}, "memory_mib of a GPU must leave more than its context_mib takes"),
        ({"name": ""}, "name of a GPU must be a short text"),
        ({"bandwith_gb_per_second": 1}, "no field 'bandwith_gb_per_second': did you mean bandwidth_gb_per_second"),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_named(wrong, said):
    with pytest.raises(UsageError, match=said):
        own_gpu(LAB | wrong)


@pytest.mark.parametrize("facts", [[], "x", None, 5], ids=str)
def test_what_is_no_object_is_refused(facts):
    with pytest.raises(UsageError, match="described by a JSON object"):
        own_gpu(facts)


def test_an_entry_of_the_catalog_describes_a_gpu_too():
    """So that a file can begin as a copy of one."""
    copies = [own_gpu(facts) for facts in json.loads(Path(gpus.__file__).with_suffix(".json").read_text())]

    assert len(copies) == len(all_gpus())
    assert all(copy.fp32_flops == gpu.fp32_flops for copy, gpu in zip(copies, all_gpus(), strict=True))
    assert min(copy.usable_bytes for copy in copies) > 4 * GIB

import json
from dataclasses import replace

import pytest

from memorymark.catalog import Price, all_gpus, find_gpu, match_gpu
from memorymark.errors import UsageError
from memorymark.units import GIB, MIB


@pytest.mark.parametrize(
    ("device_name", "gpu"),
    [
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-16gb"),
        ("Tesla V100S-PCIE-32GB", "v100-32gb"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx2080-ti"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx3080-ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070-ti-super"),
        ("NVIDIA GeForce RTX 4070 SUPER", "rtx4070-super"),
        ("NVIDIA GeForce RTX 4070", "rtx4070"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("Quadro RTX 6000", "quadro-rtx6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI250X / MI250", "mi250x"),
    ],
)
def test_a_gpu_is_found_by_the_name_its_driver_gives(device_name, gpu):
    assert match_gpu(device_name).id == gpu


@pytest.mark.parametrize(
    "device_name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H200 MIG 3g.71gb",
        "NVIDIA A10-8Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Ti",
        "NVIDIA GeForce RTX 4070 Laptop GPU",
        "NVIDIA RTX 4000 SFF Ada Generation",
        "NVIDIA GeForce RTX 3080",
        "CPU",
        "",
    ],
)
def test_a_gpu_that_only_resembles_one_of_the_catalog_is_not_taken_for_it(device_name):
    assert match_gpu(device_name) is None


@pytest.mark.parametrize(
    ("device_name", "gib", "gpu"),
    [
        ("NVIDIA GeForce RTX 3080", 9.77, "rtx3080-10gb"),
        ("NVIDIA GeForce RTX 3080", 12, "rtx3080-12gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 16, "rtx4060-ti-16gb"),
        ("NVIDIA GeForce RTX 5060 Ti", 7.6, "rtx5060-ti-8gb"),
    ],
)
def test_of_gpus_that_share_a_name_it_is_the_one_with_that_memory(device_name, gib, gpu):
    assert match_gpu(device_name, int(gib * GIB)).id == gpu
    assert match_gpu(device_name, 40 * GIB) is None


def test_the_price_is_the_cheapest_of_the_latest_of_each_provider():
    old, new, other = Price(1.0, "a", "2025-01-01"), Price(3.0, "a", "2026-01-01"), Price(2.0, "b", "2025-06-01")

    def gpu(*prices):
        return replace(find_gpu("a10"), prices=prices)

    assert gpu(old, new, other).price == other
    assert gpu(old, new).price == new
    assert gpu().price is None


def test_of_two_prices_of_a_provider_in_the_catalog_the_later_counts():
    a10 = match_gpu("NVIDIA A10")

    assert len(a10.prices) == 2
    assert a10.price.usd_per_hour == 1.29
    assert a10.price.describe() == "$1.29/h, lambda, 2026-08-03"


def test_every_price_belongs_to_a_gpu_and_says_from_whom_and_of_when():
    prices = [price for gpu in all_gpus() for price in gpu.prices]

    assert len(prices) == 25
    assert all(price.usd_per_hour > 0 and price.provider and price.as_of for price in prices)


each_gpu = pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.id)
TIMED = [gpu for gpu in all_gpus() if not gpu.memory_only]
each_timed_gpu = pytest.mark.parametrize("gpu", TIMED, ids=lambda gpu: gpu.id)


@each_gpu
def test_torch_sees_a_little_less_than_the_driver_and_the_context_takes_a_little_of_that(gpu):
    least, usual, most = gpu.context_bytes

    assert 0.9 * gpu.memory_bytes < gpu.torch_memory_bytes < gpu.memory_bytes
    assert 100 * MIB < least <= usual <= most < min(1.25 * GIB, 0.12 * gpu.torch_memory_bytes)


@each_timed_gpu
def test_shorter_numbers_are_never_slower(gpu):
    assert 0 < gpu.fp32_flops <= gpu.tf32_flops <= gpu.half_flops


@each_timed_gpu
def test_rates_are_in_operations_and_bytes_a_second(gpu):
    """An A100 does 312 TFLOPS in half precision and moves 1.5 TB/s; no GPU is a hundred times faster or slower."""
    assert 3e12 < gpu.half_flops < 3e16
    assert 3e10 < gpu.bytes_per_second < 1e14


def test_tf32_is_no_faster_than_fp32_where_there_are_no_tensor_cores_for_it():
    before_ampere = [gpu for gpu in TIMED if gpu.capability < (8, 0)]

    assert {"t4", "v100-16gb", "rtx2080-ti", "titan-rtx"} < {gpu.id for gpu in before_ampere}
    assert all(gpu.tf32_flops == gpu.fp32_flops for gpu in before_ampere)


@each_timed_gpu
def test_the_rate_in_fp32_is_what_its_cores_do_at_the_boost_clock(gpu):
    cores = 64 if gpu.capability in ((7, 0), (7, 5), (8, 0)) else 128

    assert gpu.fp32_flops == pytest.approx(2e6 * cores * gpu.multiprocessors * gpu.boost_clock_mhz, rel=0.04)


@each_timed_gpu
def test_the_rate_in_half_precision_is_what_its_tensor_cores_do_when_they_sum_in_fp32(gpu):
    """GeForce cards sum in fp32 at half the rate of professional ones with the same chip."""
    a_clock = gpu.half_flops / gpu.multiprocessors / gpu.boost_clock_mhz / 1e6
    of = {(7, 0): 1024, (8, 0): 2048, (9, 0): 4096, (10, 0): 8192, (10, 3): 8192}
    full = of.get(gpu.capability, 1024)

    assert any(a_clock == pytest.approx(rate, rel=0.16) for rate in (full, full / 2))
    if "GeForce" in gpu.name:
        assert a_clock == pytest.approx(512, rel=0.04)


@each_timed_gpu
def test_memory_moves_as_fast_as_such_a_gpu_s_can(gpu):
    assert 4 < gpu.fp32_flops / gpu.bytes_per_second < 180
    assert 10e9 <= gpu.host_link_bytes_per_second < 0.5 * gpu.bytes_per_second
    assert gpu.nvlink_bytes_per_second == 0 or gpu.nvlink_bytes_per_second >= 50e9
    assert 1 < gpu.l2_cache_mib < 256


@each_timed_gpu
def test_a_board_draws_the_power_of_its_kind(gpu):
    least, most = {"datacenter": (70, 1200), "workstation": (70, 600), "desktop": (115, 575)}[gpu.segment]

    assert least <= gpu.power_watts <= most


def test_of_gpus_of_amd_only_the_memory_is_known():
    amd = [gpu for gpu in all_gpus() if gpu.name.startswith("AMD")]

    assert [gpu.id for gpu in amd] == [gpu.id for gpu in all_gpus() if gpu.memory_only] == ["mi250", "mi250x", "mi300x"]
    assert all(gpu.half_flops == gpu.bytes_per_second == 0 and gpu.torch_memory_bytes > 60 * GIB for gpu in amd)
    assert amd[-1].to_dict()["memory_only"]


def test_estimated_memory_is_marked():
    assert find_gpu("rtx5060-ti-16gb").to_dict()["memory_estimated"]
    assert not find_gpu("h200").memory_estimated


def test_the_compute_capability_is_two_numbers():
    assert find_gpu("rtx5090").capability == (12, 0)
    assert find_gpu("a10").capability == (8, 6)


@each_gpu
def test_a_gpu_to_predict_for_is_found_by_its_id_and_its_name_whatever_the_case(gpu):
    short = gpu.name.removeprefix("NVIDIA ")

    for name in (gpu.id, gpu.id.upper(), f" {gpu.id} ", gpu.name, gpu.name.lower(), short, short.upper()):
        assert find_gpu(name) == gpu


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("Tesla T4", "t4"), ("NVIDIA A100-SXM4-40GB", "a100-40gb"), ("NVIDIA H100 80GB HBM3", "h100"), ("H200", "h200")],
)
def test_a_gpu_to_predict_for_is_found_by_the_name_its_driver_gives(name, gpu):
    assert find_gpu(name).id == gpu


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("a100", "a100-40gb or a100-80gb"),
        ("v100", "v100-16gb or v100-32gb"),
        ("rtx3080", "rtx3080-10gb, rtx3080-12gb or rtx3080-ti"),
        ("h20", "h200"),
        ("NVIDIA H100 96GB", "h100"),
        ("rtx-409", "rtx4090"),
    ],
)
def test_a_gpu_that_is_nearly_right_is_answered_with_the_nearest(name, suggestion):
    with pytest.raises(
        UsageError, match=rf"unknown GPU '{name}': did you mean {suggestion}\b.*`memorymark gpus` lists"
    ):
        find_gpu(name)


@pytest.mark.parametrize("name", ["xyzzy", "NVIDIA H200 MIG 3g.71gb"])
def test_an_unknown_gpu_is_answered_with_examples_and_where_all_are(name):
    with pytest.raises(UsageError, match=f"unknown GPU '{name}': .*`memorymark gpus` lists all"):
        find_gpu(name)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("h100-80gb", "h100"), ("rtx-4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("a100_80gb", "a100-80gb")],
)
def test_a_gpu_is_found_however_its_name_is_spelled(name, gpu):
    assert find_gpu(name).id == gpu


def test_memory_is_in_bytes():
    assert match_gpu("NVIDIA A10").memory_bytes == 23028 * MIB


def test_the_listing_is_json():
    listing = [entry.to_dict() for entry in all_gpus()]

    assert json.loads(json.dumps(listing)) == listing

import json

import pytest
import torch

from memorymark.builtin import builtin_workload
from memorymark.catalog import GpuEntry, Price, all_gpus, all_models, find_model, match_gpu
from memorymark.errors import UsageError
from memorymark.request import Request
from memorymark.units import MIB


@pytest.mark.parametrize("model", [entry.id for entry in all_models()])
def test_the_parameters_of_a_model_are_those_its_config_builds(model):
    with torch.device("meta"):
        built = builtin_workload(Request(model=model)).build()

    assert sum(p.numel() for p in built.parameters()) == find_model(model).parameters


@pytest.mark.parametrize("name", ["bert", " BERT ", "google-bert/bert-base-uncased", "Google-BERT/bert-base-uncased"])
def test_a_model_is_found_by_either_id_whatever_the_case(name):
    assert find_model(name).id == "bert"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("brt", "bert"), ("gpt-2", "gpt2"), ("resnet50", "resnet"), ("bert-base-uncased", "bert")],
)
def test_a_name_that_is_nearly_right_gets_a_suggestion(name, suggestion):
    with pytest.raises(UsageError, match=f"did you mean {suggestion}\\?"):
        find_model(name)


def test_an_unknown_model_is_answered_with_all_that_are_known():
    with pytest.raises(UsageError) as caught:
        find_model("xyzzy")

    assert "did you mean" not in str(caught.value)
    assert all(entry.id in str(caught.value) for entry in all_models())


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
    ],
)
def test_a_gpu_is_found_by_the_name_its_driver_gives(device_name, gpu):
    assert match_gpu(device_name).id == gpu


@pytest.mark.parametrize(
    "device_name",
    [
        "NVIDIA L40",
        "NVIDIA A40",
        "NVIDIA GH200 480GB",
        "NVIDIA GB200",
        "NVIDIA H100 PCIe",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H200 MIG 3g.71gb",
        "NVIDIA A10-8Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "CPU",
        "",
    ],
)
def test_a_gpu_that_only_resembles_one_of_the_catalog_is_not_taken_for_it(device_name):
    assert match_gpu(device_name) is None


def test_the_price_is_the_cheapest_of_the_latest_of_each_provider():
    old, new, other = Price(1.0, "a", "2025-01-01"), Price(3.0, "a", "2026-01-01"), Price(2.0, "b", "2025-06-01")

    def gpu(*prices):
        return GpuEntry("x", "X", ("X",), 1, "9.0", prices)

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


def test_memory_is_in_bytes():
    assert match_gpu("NVIDIA A10").memory_bytes == 23028 * MIB


def test_the_listings_are_json():
    listing = [entry.to_dict() for entry in (*all_models(), *all_gpus())]

    assert json.loads(json.dumps(listing)) == listing

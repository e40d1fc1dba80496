import json
import re
from dataclasses import replace

import pytest
import torch

from memorymark.catalog import Price, all_gpus, all_models, find_gpu, find_model, known_model, match_gpu
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.recipe import Recipe
from memorymark.request import Request
from memorymark.step import TrainingStep
from memorymark.units import MIB

each_model = pytest.mark.parametrize("entry", all_models(), ids=lambda entry: entry.id)
# What the makers' weights hold, head included, counted where they were published.
PUBLISHED = {
    "bert": 109_483_778,
    "bert-large": 335_143_938,
    "distilbert": 66_955_010,
    "roberta": 124_647_170,
    "roberta-large": 355_361_794,
    "deberta-v3": 184_423_682,
    "modernbert": 149_606_402,
    "gpt2": 124_441_344,
    "gpt2-lm": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "opt-125m": 125_239_296,
    "opt-6.7b": 6_658_473_984,
    "pythia-160m": 162_322_944,
    "pythia-1.4b": 1_414_647_808,
    "pythia-6.9b": 6_857_302_016,
    "smollm2-135m": 134_515_008,
    "smollm2-1.7b": 1_711_376_384,
    "tinyllama": 1_100_048_384,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "mistral-7b": 7_248_023_552,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "falcon-7b": 6_921_720_704,
    "bloom-560m": 559_214_592,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "flan-t5-base": 247_577_856,
    "flan-t5-xl": 2_849_757_184,
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
    "resnet": 25_557_032,
    "resnet-18": 11_689_512,
    "resnet-101": 44_549_160,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
    "swin-tiny": 28_288_354,
    "swin-base": 87_768_224,
    "convnext-tiny": 28_589_128,
    "convnext-base": 88_591_464,
    "efficientnet-b0": 5_288_548,
    "wav2vec2-base-ctc": 94_396_320,
    "whisper-tiny": 37_760_640,
    "whisper-small": 241_734_912,
    "whisper-large-v3": 1_543_490_560,
    "clip-base": 151_277_313,
    "clip-large": 427_616_513,
    "siglip-base": 203_155_970,
    "llava-1.5-7b": 7_063_427_072,
    "qwen2-vl-2b": 2_208_985_600,
    "qwen2-vl-7b": 8_291_375_616,
}


@each_model
def test_the_parameters_of_a_model_are_those_its_config_builds(entry):
    with torch.device("meta"):
        built = workload_of(Request(model=entry.id)).build()

    assert sum(p.numel() for p in built.parameters()) == entry.parameters
    assert {p.dtype for p in built.parameters()} == {torch.float32}


def test_the_parameters_are_those_that_were_published():
    assert {model: find_model(model).parameters for model in PUBLISHED} == PUBLISHED


@each_model
def test_the_stand_in_of_a_model_is_small_and_trains(entry):
    step = TrainingStep(workload_of(Request(model=entry.id, small=True)), Recipe(), torch.device("cpu"))
    step(2)

    assert sum(p.numel() for p in step.model.parameters()) < 2_000_000


def test_the_catalog_has_models_of_every_kind_from_a_few_million_to_70_billion():
    sizes = [entry.parameters for entry in all_models()]

    assert len(sizes) >= 30
    assert min(sizes) < 10e6
    assert max(sizes) > 70e9
    assert {entry.type for entry in all_models()} == {"nlp", "vision", "audio", "multimodal"}
    assert len({entry.id for entry in all_models()}) == len(sizes)


def test_the_first_three_are_what_they_were():
    """Scripts and histories know them by these ids, heads and sizes."""
    assert {
        entry.id: (entry.task, entry.parameters, entry.sample_size, entry.max_sample_size)
        for entry in map(find_model, ("bert", "gpt2", "resnet"))
    } == {
        "bert": ("sequence-classification", 109_483_778, 128, 512),
        "gpt2": ("sequence-classification", 124_441_344, 128, 1024),
        "resnet": ("image-classification", 25_557_032, 224, 4096),
    }


@pytest.mark.parametrize("name", ["bert", " BERT ", "google-bert/bert-base-uncased", "Google-BERT/bert-base-uncased"])
def test_a_model_is_found_by_either_id_whatever_the_case(name):
    assert find_model(name).id == "bert"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("resnet50", "resnet"),
        ("ResNet-50", "resnet"),
        ("resnet18", "resnet-18"),
        ("gpt-2", "gpt2"),
        ("GPT 2", "gpt2"),
        ("bert-base-uncased", "bert"),
        ("bert_base_uncased", "bert"),
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("vit_base_patch16_224", "vit-base"),
    ],
)
def test_a_model_is_found_however_its_name_is_spelled(name, model):
    assert find_model(name).id == model


def test_every_id_means_itself_though_signs_do_not_matter():
    assert [find_model(entry.id).id for entry in all_models()] == [entry.id for entry in all_models()]


@pytest.mark.parametrize("name", ["./bert", "bert/", "bert.json", "some/bert", "~bert", "bert:make", ".bert"])
def test_a_path_or_an_id_that_only_looks_like_a_model_is_none_of_the_catalog(name):
    assert known_model(name) is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("brt", "bert"), ("roberta-lage", "roberta-large"), ("resnt50", "resnet")],
)
def test_a_name_that_is_nearly_right_gets_a_suggestion(name, suggestion):
    with pytest.raises(UsageError, match=f"did you mean {suggestion}\\b"):
        find_model(name)


@pytest.mark.parametrize("name", ["xyzzy", "brt", "llama", "whisper", "qwen"])
def test_an_unknown_model_is_answered_with_three_names_at_most_and_where_all_are(name):
    with pytest.raises(UsageError) as caught:
        find_model(name)

    hint = str(caught.value).partition(": ")[2].partition("`memorymark models` lists all")[0]
    named = [entry.id for entry in all_models() if re.search(rf"(?<![\w.-]){re.escape(entry.id)}(?![\w-])", hint)]
    assert 1 <= len(named) <= 3
    assert len(str(caught.value)) < 300


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


@each_gpu
def test_torch_sees_a_little_less_than_the_driver_and_the_context_takes_a_little_of_that(gpu):
    least, usual, most = gpu.context_bytes

    assert 0.9 * gpu.memory_bytes < gpu.torch_memory_bytes < gpu.memory_bytes
    assert 0 < least <= usual <= most < 0.05 * gpu.torch_memory_bytes


@each_gpu
def test_shorter_numbers_are_never_slower(gpu):
    assert 0 < gpu.fp32_flops <= gpu.tf32_flops <= gpu.half_flops


@each_gpu
def test_rates_are_in_operations_and_bytes_a_second(gpu):
    """An A100 does 312 TFLOPS in half precision and moves 1.5 TB/s; no GPU is a hundred times faster or slower."""
    assert 3e12 < gpu.half_flops < 3e16
    assert 3e10 < gpu.bytes_per_second < 1e14


def test_tf32_is_no_faster_than_fp32_where_there_are_no_tensor_cores_for_it():
    assert {gpu.id for gpu in all_gpus() if gpu.capability < (8, 0)} == {"t4", "v100-16gb", "v100-32gb"}
    assert all(gpu.tf32_flops == gpu.fp32_flops for gpu in all_gpus() if gpu.capability < (8, 0))


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


def test_the_listings_are_json():
    listing = [entry.to_dict() for entry in (*all_models(), *all_gpus())]

    assert json.loads(json.dumps(listing)) == listing

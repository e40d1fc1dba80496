import json
import re

import pytest
import torch

from memorymark.catalog import all_gpus, all_models, find_gpu, find_model, known_model
from memorymark.catalog.tasks import check_sizes, find_task
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.training.step import TrainingStep

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
    "opt-350m": 331_196_416,
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
    "phi-4-mini": 3_836_021_760,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.3-70b": 70_553_706_496,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "ministral-8b": 8_019_808_256,
    "mistral-nemo": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-270m": 268_098_176,
    "phi-3-medium": 13_960_238_080,
    "r1-distill-qwen-1.5b": 1_777_088_000,
    "r1-distill-qwen-7b": 7_615_616_512,
    "r1-distill-qwen-14b": 14_770_033_664,
    "r1-distill-qwen-32b": 32_763_876_352,
    "r1-distill-llama-8b": 8_030_261_248,
    "r1-distill-llama-70b": 70_553_706_496,
    "olmo-2-1b": 1_484_916_736,
    "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400,
    "olmo-2-32b": 32_234_279_936,
    "olmo-3-7b": 7_298_011_136,
    "olmo-3-32b": 32_233_522_176,
    "smollm3-3b": 3_075_098_624,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "deepseek-v2-lite": 15_706_484_224,
    "olmoe": 6_919_161_856,
    "phi-3.5-moe": 41_873_153_344,
    "granite-3.3-2b": 2_533_539_840,
    "granite-3.3-8b": 8_170_864_640,
    "glm-4-9b": 9_400_279_040,
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


def test_the_listing_is_json():
    listing = [entry.to_dict() for entry in all_models()]

    assert json.loads(json.dumps(listing)) == listing


@pytest.mark.parametrize(
    ("find", "name", "code", "field"),
    [(find_model, "roberta-lage", "unknown_model", "model"), (find_gpu, "a100", "unknown_gpu", "gpu")],
)
def test_a_slip_in_a_name_comes_with_changes_that_can_be_applied(find, name, code, field):
    with pytest.raises(UsageError) as caught:
        find(name)

    error = caught.value
    assert (error.code, error.field, error.given) == (code, field, name)
    assert error.suggestions
    assert all(find(one.change[field]).id == one.label for one in error.suggestions)


@pytest.mark.parametrize(("find", "name"), [(find_model, "xyzzy"), (find_gpu, "{gpu}")])
def test_what_is_near_to_nothing_has_no_suggestions(find, name):
    with pytest.raises(UsageError, match=re.escape(repr(name))) as caught:
        find(name)

    assert caught.value.suggestions == []


def test_the_gpus_are_what_is_allowed():
    with pytest.raises(UsageError) as caught:
        find_gpu("xyzzy")

    assert caught.value.allowed == [gpu.id for gpu in all_gpus()]


@pytest.mark.parametrize(
    ("sizes", "largest", "code", "field", "allowed"),
    [
        ({"pixels": 8}, {}, "not_applicable", "image_size", None),
        ({"tokens": 0}, {}, "out_of_range", "seq_len", {"minimum": 1, "maximum": 2**24}),
        ({"tokens": 513}, {"tokens": 512}, "out_of_range", "seq_len", {"minimum": 1, "maximum": 512}),
    ],
)
def test_a_size_that_a_sample_does_not_have_is_told_as_an_option(sizes, largest, code, field, allowed):
    with pytest.raises(UsageError) as caught:
        check_sizes("bert", find_task("causal-lm"), sizes, largest)

    error = caught.value
    assert (error.code, error.field, error.allowed) == (code, field, allowed)
    assert f"--{field.replace('_', '-')}" in error.said_in("command_line")
    assert f"{field}=" in str(error)

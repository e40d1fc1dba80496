"""A quantization_config is honoured or refused, never ignored."""

import pytest

from memorymark.errors import UsageError
from memorymark.question.quantization import Quantization, quantization_of
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request

LORA = Recipe(lora=16, precision="bf16")
FOUR_BIT = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4"}
EIGHT_BIT = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True}


def config(quantization):
    return {"model_type": "llama", "quantization_config": quantization}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (FOUR_BIT, Quantization("nf4", double=False)),
        ({**FOUR_BIT, "bnb_4bit_use_double_quant": True}, Quantization("nf4", double=True)),
        ({**FOUR_BIT, "llm_int8_skip_modules": ["lm_head", "layers.3"]},
         Quantization("nf4", double=False, skipped=("lm_head", "layers.3"))),
        ({"load_in_4bit": True}, Quantization("nf4", double=False)),
        (EIGHT_BIT, Quantization("int8")),
    ],
    ids=["4-bit", "double", "skipped", "an old one", "8-bit"],
)  # fmt: skip
def test_what_bitsandbytes_quantized_is_trained_so_under_adapters(given, expected):
    assert quantization_of(config(given), "mine", LORA) == expected


def test_a_config_without_it_is_not_quantized():
    assert quantization_of({"model_type": "llama"}, "mine", Recipe()) is None


@pytest.mark.parametrize(("given", "bits"), [(FOUR_BIT, 4), (EIGHT_BIT, 8)])
def test_quantized_weights_cannot_be_trained_themselves(given, bits):
    with pytest.raises(UsageError, match=f"mine is quantized to {bits} bits, .* add lora=16 .*, or use weights=") as no:
        quantization_of(config(given), "mine", Recipe())

    assert no.value.suggestions[0].change == {"lora": 16}


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "mxfp4", "compressed-tensors", "hqq"])
def test_other_methods_are_refused_by_name(method):
    with pytest.raises(UsageError, match=f'mine is quantized with {method}, .* use weights="bf16" to train it'):
        quantization_of(config({"quant_method": method, "bits": 4}), "mine", LORA)


@pytest.mark.parametrize("given", [FOUR_BIT, {"quant_method": "gptq"}])
def test_a_type_that_is_asked_for_wins(given):
    assert quantization_of(config(given), "mine", Recipe(weights="bf16")) is None


def test_the_layers_that_a_config_skips_count_too_if_its_type_is_asked_for():
    found = quantization_of(config({**FOUR_BIT, "llm_int8_skip_modules": ["x"]}), "mine", Recipe(weights="nf4", lora=4))

    assert found == Quantization("nf4", double=False, skipped=("x",))


def test_a_request_with_such_a_config_is_refused_when_it_is_made():
    with pytest.raises(UsageError, match="llama config is quantized with gptq"):
        Request(config=config({"quant_method": "gptq"}))

import json

import numpy as np
import pytest
import torch

from memorymark.errors import UsageError
from memorymark.question.recipe import FUSED_OPTIMIZERS, Recipe


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"precision": "int8"}, "unknown precision 'int8'; use one of fp32, bf16, fp16"),
        ({"optimizer": "zion"}, "unknown optimizer 'zion': did you mean lion"),
        ({"loss": "sum"}, "unknown loss 'sum'; use one of model, mean"),
        ({"accumulation_steps": 0}, "accumulate= must be 1 or more, not 0"),
        ({"lora": -1}, "lora= must be 0 or more, not -1"),
        ({"lora": 1.5}, "lora= must be a whole number, not 1.5"),
        ({"fused": True, "optimizer": "adafactor"}, "fused= needs optimizer= adamw, adam or sgd, not adafactor"),
        ({"fused": True, "optimizer": "none"}, "fused= needs optimizer= adamw, adam or sgd, not none"),
        ({"weights": "nf4"}, 'weights="nf4" freezes the weights, so it needs adapters; add lora=16.'),
        ({"weights": "int8", "optimizer": "none"}, 'weights="int8" freezes the weights, so it needs adapters'),
        ({"weights": "bf16", "precision": "fp16"}, 'weights="bf16" and precision="fp16" are two 16-bit types'),
        ({"weights": "fp16", "precision": "fp16"}, "torch refuses to unscale the gradients of weights="),
        ({"lora_targets": "q_proj"}, "lora_targets= is for adapters; add lora=16, or drop it"),
        ({"lora_variant": "dora"}, "lora_variant= is for adapters; add lora=16, or drop it"),
        ({"lora": 4, "lora_targets": ".*"}, r"lora_targets= must be all-linear, attention or names of layers"),
    ],
)
def test_a_wrong_recipe_is_refused_in_a_sentence_that_says_what_is_right(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        Recipe(**options)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(True, "full"), (False, "none"), ("full", "full"), ("Selective", "selective"), ("off", "none")],
)
def test_checkpointing_may_be_a_kind_or_as_in_older_records_true_or_false(given, kind):
    assert Recipe(gradient_checkpointing=given) == Recipe(gradient_checkpointing=kind)
    assert Recipe(**{**Recipe().to_dict(), "gradient_checkpointing": given}).gradient_checkpointing == kind


@pytest.mark.parametrize("optimizer", FUSED_OPTIMIZERS)
def test_optimizers_with_a_fused_version_may_be_fused(optimizer):
    assert Recipe(fused=True, optimizer=optimizer).describe().startswith("fp32, fused ")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(), "fp32, AdamW"),
        (Recipe(train_mode=False, loss="mean", optimizer="none"),
         "fp32, no optimizer, eval mode, mean of the logits as loss"),
        (Recipe(precision="bf16", fused=True, gradient_checkpointing=True, accumulation_steps=4),
         "bf16, fused AdamW, gradient checkpointing, 4 accumulation steps"),
        (Recipe(precision="bf16", lora=16, gradient_checkpointing=True),
         "bf16, AdamW, LoRA rank 16, gradient checkpointing"),
        (Recipe(optimizer="sgd", compile=True, tf32=True, channels_last=True),
         "fp32, SGD, torch.compile, TF32, channels_last"),
        (Recipe(weights="bf16"), "bf16 weights, AdamW"),
        (Recipe(weights="bf16", precision="bf16"), "bf16 weights, bf16 autocast, AdamW"),
        (Recipe(weights="nf4", precision="bf16", lora=8, lora_targets="q_proj,v_proj", lora_variant="dora"),
         "nf4 weights, bf16 autocast, AdamW, LoRA rank 8, adapters on q_proj, v_proj, DoRA"),
    ],
    ids=["default", "published", "saving memory", "adapters", "fast", "pure bf16", "bf16 twice", "QLoRA"],
)  # fmt: skip
def test_the_description_says_what_is_unusual(recipe, words):
    assert recipe.describe() == words


@pytest.mark.parametrize("name", ["4bit", "4-bit", "QLoRA", "NF4", "load_in_4bit"])
def test_four_bit_weights_have_many_names(name):
    assert Recipe(weights=name, lora=4).weights == "nf4"


def test_a_type_of_weights_that_a_config_brought_is_described():
    assert Recipe(lora=4, precision="bf16").describe(weights_dtype="nf4") == (
        "nf4 weights, bf16 autocast, AdamW, LoRA rank 4"
    )


@pytest.mark.parametrize(
    ("recipe", "bytes_per_weight"),
    [
        (Recipe(), 4 + 4 + 8),
        (Recipe(optimizer="sgd"), 4 + 4 + 4),
        (Recipe(weights="bf16"), 2 + 2 + 4),
        (Recipe(weights="bf16", optimizer="sgd"), 2 + 2 + 2),
        (Recipe(weights="bf16", optimizer="adamw8bit"), 2 + 2 + 2),
        (Recipe(lora=16, precision="bf16"), 2),
        (Recipe(lora=16, precision="bf16", weights="fp32"), 4),
        (Recipe(lora=16, weights="int8"), 1),
        (Recipe(lora=16, weights="nf4"), 0.5),
    ],
    ids=lambda value: value.describe() if isinstance(value, Recipe) else "",
)
def test_what_training_takes_at_least(recipe, bytes_per_weight):
    assert recipe.least_bytes(10) == 10 * bytes_per_weight


def test_a_recipe_survives_json():
    recipe = Recipe(precision="fp16", optimizer="adam", accumulation_steps=2, tf32=True)

    assert Recipe(**json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("field", "given", "meant"),
    [
        *(("precision", name, "bf16") for name in ("bfloat16", "BF16", "bf-16", "torch.bfloat16", torch.bfloat16)),
        *(("precision", name, "fp16") for name in ("float16", "half", "FP-16", "fp_16", "16-mixed", torch.half)),
        *(("precision", name, "fp32") for name in ("float32", "Float 32", torch.float)),
        *(("optimizer", name, "adamw") for name in ("AdamW", "adamw_torch", "torch.optim.AdamW")),
        *(("optimizer", name, "adamw8bit") for name in ("adamw_8bit", "AdamW8bit", "adamw_bnb_8bit", "8-bit AdamW")),
        *(("optimizer", name, "paged-adamw8bit") for name in ("paged_adamw_8bit", "PagedAdamW8bit")),
        *(("optimizer", name, "lion") for name in ("lion_32bit", "Lion")),
        *(("optimizer", name, "muon") for name in ("Muon", "torch.optim.Muon")),
        *(("optimizer_variant", name, "forloop") for name in ("for-loop", "single_tensor")),
        *(("optimizer", name, "sgd") for name in ("SGD", " sgd ")),
        *(("weights", name, "bf16") for name in ("bfloat16", "bf16-true", torch.bfloat16)),
        ("attention", "SDPA", "sdpa"),
        ("loss", "Mean", "mean"),
    ],
)
def test_the_names_that_people_know_a_choice_by_are_understood(field, given, meant):
    assert Recipe(**{field: given}) == Recipe(**{field: meant})


@pytest.mark.parametrize("field", ["precision", "optimizer", "attention", "loss"])
@pytest.mark.parametrize("given", [None, 5, True, [], torch.int8, object()])
def test_what_is_no_name_of_a_choice_is_refused(field, given):
    with pytest.raises(UsageError, match=f"unknown {field} "):
        Recipe(**{field: given})


def test_a_slip_in_a_choice_is_answered_with_what_was_perhaps_meant():
    with pytest.raises(UsageError, match=r"unknown optimizer 'adafctor': did you mean adafactor\?"):
        Recipe(optimizer="adafctor")


@pytest.mark.parametrize("number", [np.int64(4), np.uint8(4), np.array(4), torch.tensor(4)], ids=lambda n: str(type(n)))
def test_whole_numbers_of_numpy_and_torch_are_whole_numbers(number):
    recipe = Recipe(accumulation_steps=number, lora=number)

    assert json.loads(json.dumps(recipe.to_dict())) == Recipe(accumulation_steps=4, lora=4).to_dict()


@pytest.mark.parametrize("number", [True, np.True_, torch.tensor(True), 4.0, np.float32(4), np.array([4, 4]), "4"])
def test_what_is_no_whole_number_is_refused(number):
    with pytest.raises(UsageError, match="accumulate= must be a whole number"):
        Recipe(accumulation_steps=number)


def test_flash_attention_needs_16_bits():
    with pytest.raises(UsageError, match="computes in 16 bits only") as raised:
        Recipe(attention="flash")

    change = {name: value for one in raised.value.suggestions for name, value in one.change.items()}
    assert change == {"precision": "bf16", "attention": "auto"}
    assert Recipe(attention="flash_attention_2", precision="bf16").attention == "flash"
    assert Recipe(attention="fa3", weights="bf16").attention == "flash"

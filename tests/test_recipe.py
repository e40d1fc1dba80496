import json

import pytest

from memorymark.errors import UsageError
from memorymark.recipe import FUSED_OPTIMIZERS, Recipe


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"precision": "int8"}, "unknown precision 'int8'; use one of fp32, bf16, fp16"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'; use one of adamw, "),
        ({"loss": "sum"}, "unknown loss 'sum'; use one of model, mean"),
        ({"accumulation_steps": 0}, "1 or more steps, not 0"),
        ({"lora": -1}, "--lora must be a rank of 1 or more, or 0 for none, not -1"),
        ({"lora": 1.5}, "lora must be a whole number, not 1.5"),
        ({"fused": True, "optimizer": "adafactor"}, "adafactor has no fused version"),
        ({"fused": True, "optimizer": "none"}, "none has no fused version"),
    ],
)
def test_a_wrong_recipe_is_refused_in_a_sentence_that_says_what_is_right(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        Recipe(**options)


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
    ],
    ids=["default", "published", "saving memory", "adapters", "fast"],
)  # fmt: skip
def test_the_description_says_what_is_unusual(recipe, words):
    assert recipe.describe() == words


def test_a_recipe_survives_json():
    recipe = Recipe(precision="fp16", optimizer="adam", accumulation_steps=2, tf32=True)

    assert Recipe(**json.loads(json.dumps(recipe.to_dict()))) == recipe

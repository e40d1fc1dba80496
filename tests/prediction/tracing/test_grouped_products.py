"""Mixtures of experts multiply for all of their experts at once, in any type."""

import pytest
import torch

import memorymark as mm
from memorymark.prediction.tracing.grouped_products import grouped_product

EXPERTS, ROWS, DEPTH, COLUMNS = 4, 32, 16, 24
# Of a mixture of transformers: small, but with everything that its experts do.
MIXTRAL = {
    "model_type": "mixtral",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def operands(form, dtype):
    shapes = {
        "rows by expert": ((ROWS, DEPTH), (EXPERTS, DEPTH, COLUMNS)),
        "gradient of the weights": ((DEPTH, ROWS), (ROWS, COLUMNS)),
        "one product for each": ((EXPERTS, ROWS, DEPTH), (EXPERTS, DEPTH, COLUMNS)),
    }
    left, right = (torch.ones(shape, dtype=dtype) for shape in shapes[form])
    ends = None if form == "one product for each" else torch.arange(1, EXPERTS + 1, dtype=torch.int32) * ROWS // EXPERTS
    return left, right, ends


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("form", ["rows by expert", "gradient of the weights", "one product for each"])
def test_the_result_is_as_large_as_that_of_a_run(form, dtype):
    left, right, ends = operands(form, dtype)

    ran = torch._grouped_mm(left, right, offs=ends)
    told = grouped_product(left, right, ends)

    assert (told.shape, told.dtype) == (ran.shape, ran.dtype)


def test_rows_of_a_result_start_at_whole_words_as_on_cuda():
    told = grouped_product(torch.ones(ROWS, DEPTH), torch.ones(EXPERTS, DEPTH, 21), torch.ones(EXPERTS))

    assert told.shape == (ROWS, 21)
    assert told.stride() == (24, 1)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_mixture_is_predicted_and_its_idle_experts_cost_only_what_their_weights_take(precision):
    asked = {"batch_size": 8, "gpu": "h100", "seq_len": 64, "precision": precision}
    few, many = (mm.predict("mine", config={**MIXTRAL, "num_local_experts": n}, **asked) for n in (8, 16))

    weights = 2 * 8 * 3 * 64 * 128 * 4  # two layers, eight more experts of three matrices in fp32
    assert many.breakdown.weights_bytes - few.breakdown.weights_bytes == pytest.approx(weights, rel=0.01)
    assert many.breakdown.activations_bytes == pytest.approx(few.breakdown.activations_bytes, rel=0.02)


def test_more_active_experts_than_experts_are_refused():
    with pytest.raises(mm.UsageError, match="num_experts_per_tok is 9, more than its 8 experts; give fewer") as caught:
        mm.predict("mine", config={**MIXTRAL, "num_experts_per_tok": 9}, batch_size=2, gpu="h100")

    assert (caught.value.code, caught.value.field) == ("bad_config", "config")

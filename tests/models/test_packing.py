import pytest
import torch

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.models.packing import sample_lengths
from memorymark.models.workloads import workload_of
from memorymark.training.step import prepare_model

CPU = torch.device("cpu")
LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 200,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
ROW, MEAN = 20, 8


def packed(config, **options):
    return mm.Request(config=config, seq_len=ROW, packed=True, **{"mean_tokens": MEAN, **options})


def test_a_row_is_full_of_samples():
    assert sample_lengths(20, 8) == [8, 8, 4]
    assert sample_lengths(16, 8) == [8, 8]
    assert sample_lengths(8, 8) == [8]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_samples_in_a_row_train_as_they_would_alone(config, attention):
    workload = workload_of(packed(config))
    torch.manual_seed(0)
    model = prepare_model(workload.build(), mm.Recipe(attention=attention))
    batch = workload.batch(2, CPU)

    loss = model(**batch).loss
    loss.backward()
    together = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    alone = 0.0
    for row in batch["input_ids"]:
        for sample in row.split(sample_lengths(ROW, MEAN)):
            learned = len(sample) - 1  # tokens that another one predicts
            one = model(input_ids=sample[None], labels=sample[None]).loss * learned / (2 * (ROW - 3))
            one.backward()
            alone += one.item()

    assert loss.item() == pytest.approx(alone, rel=1e-4)
    torch.testing.assert_close(together, [parameter.grad for parameter in model.parameters()], rtol=1e-3, atol=1e-5)


def test_flash_attention_gets_all_rows_in_one():
    apart, joined = (
        workload_of(packed(LLAMA, recipe=recipe)).batch(3, CPU)
        for recipe in (mm.Recipe(), mm.Recipe(attention="flash", precision="bf16"))
    )

    assert apart["input_ids"].shape == (3, ROW)
    assert joined["input_ids"].shape == (1, 3 * ROW)
    assert "attention_mask" not in joined
    torch.testing.assert_close(joined["position_ids"].view(3, ROW), apart["position_ids"])


def test_prompts_in_a_row_do_not_count():
    labels = workload_of(packed(LLAMA, task="sft")).batch(1, CPU)["labels"][0]

    assert (labels == -100).tolist() == [*[True] * 4, *[False] * 4] * 2 + [True] * 2 + [False] * 2


def test_the_sample_of_reports_is_a_row():
    workload = workload_of(packed(LLAMA, mean_tokens=None))

    assert (workload.sample_sizes, workload.mean_tokens) == ({"tokens": ROW}, ROW // 4)
    assert workload.sample == "rows of 20 tokens, packed with samples of 5"


@pytest.mark.parametrize(
    ("config", "task", "said"),
    [
        ({"model_type": "bert"}, "masked-lm", "is for causal language models"),
        ({"model_type": "roberta"}, "causal-lm", "positions that start over within a row"),
        ({"model_type": "bloom", "vocab_size": 100}, None, "positions that start over within a row"),
        ({"model_type": "t5"}, None, "is for causal language models"),
    ],
)
def test_models_that_cannot_tell_samples_apart_are_refused(config, task, said):
    with pytest.raises(UsageError, match=said):
        workload_of(mm.Request(config=config, task=task, packed=True))

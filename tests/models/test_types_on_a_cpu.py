"""What is predicted for small models of several types is what real CPU tensors take, without a GPU's kernels."""

import pytest

import memorymark as mm
from memorymark.devices import open_device
from memorymark.models.workloads import workload_of
from memorymark.probe.measured import MeasuredProbe
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from support.step_peaks import predicted_peaks

SIZE = 6
# On a GPU, dropout keeps a byte for each element.
RECIPE = Recipe(attention="eager", optimizer="sgd")
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
NARROW = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 256, "vocab_size": 500, **NO_DROPOUT}
CONFIGS = {
    "question-answering": [
        {"model_type": "longformer", "num_hidden_layers": 2, "attention_window": [32, 32], **NARROW},
        {"model_type": "lxmert", "l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 64, **NARROW},
    ],
    "image-classification": [
        {
            "model_type": "imagegpt",
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": 128,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        }
    ],
}


@pytest.mark.parametrize(
    ("task", "config"),
    [(task, config) for task, configs in CONFIGS.items() for config in configs],
    ids=lambda one: one if isinstance(one, str) else one["model_type"],
)
def test_the_prediction_takes_what_real_tensors_take(task, config):
    request = mm.Request(config=config, task=task, seq_len=128 if task == "question-answering" else None)
    workload = workload_of(request)

    with MeasuredProbe(workload, RECIPE, open_device(Target(device="cpu"))) as probe:
        trial = probe.try_from_start(SIZE)

    assert max(predicted_peaks(workload, SIZE, RECIPE).values()) == pytest.approx(trial.peak_allocated_bytes, rel=0.02)

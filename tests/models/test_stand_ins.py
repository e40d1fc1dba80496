"""Stand-ins of configs that leave everything to their class."""

import pytest
import torch

import memorymark as mm
from memorymark.models.workloads import workload_of

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "family",
    ["t5", "mt5", "bart", "marian", "gpt2", "bert", "swin", "swinv2", "vit", "convnext", "hiera", "clip"],
)
def test_the_stand_in_of_a_bare_config_runs(family):
    small = workload_of(mm.Request(config={"model_type": family}, small=True))
    model = small.build()
    with torch.no_grad():
        outputs = model(**small.batch(1, CPU), **({"return_loss": True} if family == "clip" else {}))

    assert outputs.loss.isfinite()
    assert len(list(model.parameters())) < 150


def test_what_a_model_takes_that_is_not_known_is_said_and_is_no_crash():
    request = mm.Request(config={"model_type": "dia"}, small=True, task="speech-seq2seq")

    with pytest.raises(mm.UsageError, match=r"the inputs of dia config \(dia\) are not known"):
        workload_of(request).batch(2, CPU)

"""Models too large for this machine, predicted on it."""

import json
import os
import subprocess
import sys

import pytest

import memorymark as mm
from memorymark.units import GIB

SEVEN_BILLION = """
import json, resource
import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from zoo import tokens, transformer

llama = transformer(
    "LlamaForCausalLM", "LlamaConfig", tokens(32_000, 512), hidden_size=4096, intermediate_size=11_008,
    num_hidden_layers=32, num_attention_heads=32, vocab_size=32_000,
)
recipe, gpu = mm.Recipe(precision="bf16", optimizer="adafactor", gradient_checkpointing=True), find_gpu("h200")
probe = PredictedProbe(trace_training(llama(), recipe, gpu.capability), recipe, gpu)
trial = probe.measure(4)
print(json.dumps({
    "parameters": probe.info.parameters,
    "trial": trial.to_dict(),
    "resident_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of resident memory is counted in KiB on Linux")
def test_seven_billion_parameters_are_predicted_in_less_than_two_gigabytes():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run([sys.executable, "-c", SEVEN_BILLION], capture_output=True, text=True, env=environment)

    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    trial = mm.Trial.from_dict(answer["trial"])
    assert answer["parameters"] == 6_738_415_616
    assert trial.fits
    assert trial.breakdown.weights_bytes == pytest.approx(4 * answer["parameters"], rel=0.001)
    assert trial.breakdown.gradients_bytes == pytest.approx(4 * answer["parameters"], rel=0.001)
    assert trial.breakdown.optimizer_state_bytes < 0.01 * trial.breakdown.weights_bytes
    assert trial.samples_per_second > 0
    assert answer["resident_bytes"] < 2 * GIB

"""How much faster a change would make a training, against what an NVIDIA H200 did (tests/data/h200_truth.jsonl)."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from memorymark.units import GIB
from memorymark.watch.detector import Detector
from memorymark.watch.findings.base import Estimate
from memorymark.watch.gains import Gains
from memorymark.watch.hooks import install, uninstall
from memorymark.watch.observation import DeviceFacts, MemoryFacts, ModelFacts, Observation, OptimizerFacts
from memorymark.watch.operations import StepOperations
from memorymark.watch.verdict import judge
from support.step_operations import traced_operations

H200 = DeviceFacts(
    kind="cuda", name="H200", gpu_id="h200", total_bytes=140 * GIB, capacity_bytes=139 * GIB, capability=(9, 0)
)
operations = cache(traced_operations)


def training(model, batch_size, step_seconds, recipe=(), **facts):
    """An observation of a GPU that is always busy, with the step's recorded operations."""
    usual = {
        "steps": 100,
        "timed_steps": 97,
        "batch_size": batch_size,
        "step_seconds": step_seconds,
        "gpu_idle_seconds": 0.0,
        "waiting_seconds": 0.0,
        "busy": 1.0,
        "power": 0.6,
        "device": H200,
        "model": ModelFacts(
            name=model,
            parameters=1,
            trainable_parameters=1,
            precision="float32",
            has_convolutions=model == "resnet",
            channels_last="channels_last" in dict(recipe),
        ),
        "autocast": "bfloat16" if recipe else None,
        "tf32": model == "resnet",
        "optimizers": [OptimizerFacts(name="AdamW", fused=False, can_fuse=True)],
        "memory": MemoryFacts(peak_allocated_bytes=4 * GIB, peak_reserved_bytes=5 * GIB, device_bytes=0),
        "torch_imported": True,
        "operations": operations(model, batch_size, **dict(recipe)),
    }
    return Observation(**{**usual, **facts})


BF16 = (("precision", "bf16"),)


def test_a_large_batch_that_gains_little_ranks_below_a_layout_that_gains_more():
    """ResNet-50 on an H200: batch 64 to 1,816 ran 1.08x faster, channels_last up to 1.9x."""
    seen = training("resnet", 64, 0.0309, BF16)
    findings = judge(seen, Estimate(2000, 1816, "one step")).findings
    ranked = [finding.kind for finding in findings]
    assert ranked.index("channels_last") < ranked.index("batch")
    assert [one.speedup for one in findings] == sorted((one.speedup for one in findings), reverse=True)
    batch = next(finding for finding in findings if finding.kind == "batch")
    assert batch.speedup_basis == "predicted"
    assert batch.speedup_interval[0] < batch.speedup < batch.speedup_interval[1]


@pytest.mark.parametrize(
    ("model", "today", "larger", "true"),
    [("bert", 64, 256, 1.11), ("gpt2", 64, 256, 1.11), ("resnet", 64, 256, 1.12)],
)
def test_the_gain_of_a_larger_batch_is_about_what_an_h200_gained(model, today, larger, true):
    seconds = {"bert": 0.1073, "gpt2": 0.1186, "resnet": 0.0328}[model]
    gain = Gains(training(model, today, seconds)).batch(larger, 1)
    assert gain.basis == "predicted"
    assert gain.speedup == pytest.approx(true, rel=0.12)


@pytest.mark.parametrize(
    ("model", "batch_size", "now", "true"), [("bert", 256, 0.3859, 6.07), ("gpt2", 256, 0.4293, 3.47)]
)
def test_the_gain_of_half_precision_covers_what_an_h200_gained(model, batch_size, now, true):
    gain = Gains(training(model, batch_size, now)).precision("bf16", 15.0)
    assert gain.low < true < gain.high


def test_the_gain_of_channels_last_covers_what_an_h200_gained():
    gain = Gains(training("resnet", 256, 0.1068, BF16)).channels_last()
    assert gain.low < 1.93 < gain.high


@pytest.mark.parametrize(
    ("model", "batch_size", "now", "recipe", "true"),
    [
        ("bert", 512, 0.1095, BF16, 1.16),
        ("gpt2", 384, 0.1740, BF16, 2.3),
        ("resnet", 512, 0.1030, (*BF16, ("channels_last", True)), 1.44),
    ],
)
def test_a_busy_eager_training_is_told_what_compiling_gains(model, batch_size, now, recipe, true):
    """The three that the estimate was made with."""
    seen = training(model, batch_size, now, recipe, power=0.95)
    found = {finding.kind: finding for finding in judge(seen).findings}
    low, high = found["compile"].speedup_interval
    assert low < true < high
    assert "compile()" in found["compile"].code
    compiled = replace(seen, model=replace(seen.model, compiled=True))
    assert "compile" not in {finding.kind for finding in judge(compiled).findings}


def test_a_prediction_that_todays_step_contradicts_is_not_used():
    assert Gains(training("bert", 256, 0.02)).batch(512, 1).basis == "assumed"


def test_what_waits_for_data_gains_only_in_the_rest_of_its_time():
    seen = training("bert", 256, 0.3859)
    waiting = replace(seen, step_seconds=2 * 0.3859, gpu_idle_seconds=0.3859)
    whole, half = (Gains(one).precision("bf16", 15.0).speedup for one in (seen, waiting))
    assert half == pytest.approx(1 / (0.5 + 0.5 / whole))


def test_operations_survive_their_file():
    step = operations("bert", 64)
    assert StepOperations.from_dict(json.loads(json.dumps(step.to_dict()))) == step


class Idle:
    """A GPU without an allocator whose history could be recorded."""

    def __init__(self, reserved_bytes=GIB):
        self.clock = SimpleNamespace(begin=int, end=int, collect=int, reset=int, seconds=0.0, gaps=0)
        self.sampler = SimpleNamespace(stepped=float, stop=int, reset=int, samples=0)
        self.recording, self._reserved = False, reserved_bytes

    def usable(self):
        return True

    def facts(self):
        return H200

    def memory(self, *, settled):
        return MemoryFacts(peak_allocated_bytes=GIB, peak_reserved_bytes=self._reserved, device_bytes=GIB)

    def start_recording(self):
        return False

    def finish_recording(self):
        return None

    def abandon_recording(self):
        return None


def counted(batches, reserved_bytes=GIB, around=nullcontext):
    detector = Detector(open_gpu=lambda _: Idle(reserved_bytes))
    install(detector)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    try:
        with around():
            for _ in range(batches):
                model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        detector.ended(None)
    finally:
        uninstall(detector)
    assert detector.observation().problem is None
    return detector.observation()


def test_the_operations_of_one_step_are_counted():
    # In a process of its own, as scripts are watched: nothing is counted where torch.compile has run before.
    check = f"import runpy, sys; sys.path[:] = {sys.path!r}; runpy.run_path({__file__!r})['check_operations']()"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_operations():
    step = counted(12).operations
    names = {(one.operation.base_name, one.phase): one for one in reversed(step.operations)}
    assert step.batch_size == 4
    assert sorted(step.parameters) == [(1,), (1, 16), (16,), (16, 8)]
    assert names["addmm", "forward"].operation.inputs[1].shape == (4, 8)
    assert names["addmm", "forward"].operation.eager
    assert not names["mm", "backward"].operation.eager
    assert any(name.startswith("_foreach") for name, phase in names if phase == "optimizer")
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.mark.parametrize("steps", [7, 8])
def test_a_script_that_ends_while_operations_are_counted_leaves_no_mode_behind(steps):
    counted(steps)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_nothing_is_counted_where_memory_is_scarce():
    assert counted(12, reserved_bytes=130 * GIB).operations is None

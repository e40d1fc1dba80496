"""What only a real GPU can show. Most tests share this process, because starting a worker takes seconds."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

import memorymark as mm
from memorymark import answer as engine
from memorymark.catalog import match_gpu
from memorymark.devices import nvml, open_device
from memorymark.engine.throughput import measure_curve
from memorymark.largest_batch import find_maximum
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.units import GIB, MIB
from memorymark.worker.remote import RemoteProbe
from support.processes import SeenWorkers

pytestmark = pytest.mark.gpu

CAP_BYTES = 4 * GIB
BERT_BYTES = 109_483_778 * 4


@pytest.fixture(autouse=True)
def nothing_left_by_the_test_before():
    torch.cuda.set_per_process_memory_fraction(1.0)
    gc.collect()
    torch.cuda.empty_cache()


def capped(model, cap_bytes=CAP_BYTES, **recipe):
    target = mm.Target(device="cuda", memory_cap_bytes=cap_bytes)
    return mm.Request(model=model, recipe=mm.Recipe(**recipe), target=target)


def probe_for(request):
    return MeasuredProbe(workload_of(request), request.recipe, open_device(request.target))


def test_a_full_trial_is_what_a_training_that_starts_with_it_is_whatever_ran_before():
    after_others = probe_for(capped("bert"))
    for size in (2, 16):
        after_others.try_batch(size)
    trials = [after_others.measure(8), after_others.try_from_start(8)]
    del after_others
    gc.collect()
    alone = probe_for(capped("bert")).measure(8)
    for trial in trials:
        assert trial.peak_allocated_bytes == alone.peak_allocated_bytes
        assert trial.peak_reserved_bytes == alone.peak_reserved_bytes


def test_breakdown_names_what_the_device_holds_and_adds_up():
    trial = probe_for(capped("bert")).measure(32)
    parts = trial.breakdown
    assert parts.total_bytes == trial.device_bytes
    assert parts.weights_bytes == pytest.approx(BERT_BYTES, rel=0.01)
    assert parts.optimizer_state_bytes == pytest.approx(2 * BERT_BYTES, rel=0.01)
    assert parts.activations_bytes > 0.3 * trial.peak_allocated_bytes
    assert min(vars(parts).values()) >= 0
    assert 300 * MIB < parts.context_bytes < 2 * GIB
    assert trial.peak_allocated_bytes <= trial.peak_reserved_bytes < trial.device_bytes


def test_gradients_are_alive_at_the_peak_when_the_optimizer_makes_it():
    parts = probe_for(capped("bert")).measure(1).breakdown
    assert parts.gradients_bytes == pytest.approx(BERT_BYTES, rel=0.01)


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"precision": "fp16"},
        {"precision": "bf16", "gradient_checkpointing": True},
        {"precision": "bf16", "gradient_checkpointing": "selective"},
        {"fused": True, "tf32": True},
        {"optimizer": "adafactor"},
        {"accumulation_steps": 3},
    ],
)
def test_maximum_is_exact_under_every_recipe(recipe):
    probe = probe_for(capped("bert", cap_bytes=3 * GIB, **recipe))
    capacity_bytes = probe.info.capacity_bytes
    found = find_maximum(probe.try_batch, capacity_bytes, guide=probe, from_start=probe.try_from_start)
    assert found.exact and found.blocker.failure.kind == "memory"
    # Ten steps more can blur the edge: what fails then makes way for the largest that still fits.
    curve = measure_curve(probe.measure, found.maximum, current=1, safe_size=1)
    largest = max(trial.batch_size for trial in curve if trial.fits)
    assert largest == found.maximum or largest + 1 in [trial.batch_size for trial in curve if not trial.fits]
    assert probe.clean


@pytest.mark.parametrize(("model", "recipe"), [("gpt2", {}), ("bert", {"precision": "bf16"}), ("resnet", {})])
def test_forecast_from_small_steps_is_within_one_percent(model, recipe):
    probe = probe_for(capped(model, cap_bytes=12 * GIB, **recipe))
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    assert abs(probe.forecast() - found.maximum) <= max(1, 0.01 * found.maximum)
    assert len(found.trials) <= 7


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_prediction_is_right_on_the_gpu_here(precision):
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        pytest.skip("the GPU here is not in the catalog")
    request = capped("bert", cap_bytes=6 * GIB, precision=precision)
    measured = probe_for(request)
    found = find_maximum(measured.try_batch, measured.info.capacity_bytes, guide=measured)
    step = trace_training(workload_of(request), request.recipe, gpu.capability)
    predicted = PredictedProbe(step, request.recipe, gpu, memory_cap_bytes=measured.info.capacity_bytes)
    assert predicted.forecast() == pytest.approx(found.maximum, rel=0.04)


def conversions(probe):
    """How often a step turns images from one memory layout into the other for a kernel."""
    probe.try_batch(64)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        probe.try_batch(64)
    names = [event.name.lower() for event in profile.events()]
    return sum("nchwtonhwc" in name or "nhwctonchw" in name for name in names)


def test_channels_last_spares_resnet_the_conversions_of_bf16():
    plain = conversions(probe_for(capped("resnet", precision="bf16")))
    better = conversions(probe_for(capped("resnet", precision="bf16", channels_last=True)))
    assert plain > 100
    assert better < 0.05 * plain


def test_memory_returns_to_the_baseline_after_out_of_memory():
    probe = probe_for(capped("bert"))
    first = probe.measure(8)
    assert not probe.try_batch(2000).fits
    assert probe.clean
    assert probe.measure(8).peak_allocated_bytes == pytest.approx(first.peak_allocated_bytes, rel=0.01)


def test_model_that_does_not_fit_says_by_how_much():
    probe = probe_for(capped("bert", cap_bytes=GIB))
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    assert found.maximum == 0
    assert 0 < found.trials[-1].failure.shortfall_bytes < GIB


def test_weights_beyond_the_cap_are_refused_when_building():
    with pytest.raises(mm.DoesNotFitError, match="weights of bert alone"):
        probe_for(capped("bert", cap_bytes=GIB // 4))


def test_cap_above_the_gpu_is_a_usage_error():
    with pytest.raises(mm.UsageError, match="lower it"):
        open_device(mm.Target(device="cuda", memory_cap_bytes=2**50))


def test_killed_worker_gives_the_memory_back():
    before = nvml.used_bytes(0)
    workers = SeenWorkers()
    with RemoteProbe(capped("bert"), workers=workers) as probe:
        probe.try_batch(16)
        assert nvml.used_bytes(0) > before + GIB
        threading.Timer(0.3, os.kill, (workers.pids[-1], signal.SIGKILL)).start()
        with pytest.raises(mm.WorkerError, match="killed"):
            for _ in range(100):
                probe.measure(16)
    assert nvml.used_bytes(0) < before + 100 * MIB


def test_ctrl_c_leaves_no_memory_behind():
    before = nvml.used_bytes(0)
    code = "import memorymark as mm; mm.analyze(mm.Request(model='bert'))"
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    while nvml.used_bytes(0) < before + GIB:
        time.sleep(0.1)
    caller.send_signal(signal.SIGINT)
    assert caller.wait(timeout=30) != 0
    time.sleep(1)
    assert nvml.used_bytes(0) < before + 100 * MIB


def test_what_others_hold_is_seen_and_respected():
    torch.cuda.empty_cache()
    hog = torch.empty(20 * GIB, dtype=torch.uint8, device="cuda")
    info, trial = engine.measure(mm.Request(model="resnet", target=mm.Target(device="cuda")), 8)
    del hog
    assert trial.breakdown.other_processes_bytes > 20 * GIB
    assert info.capacity_bytes < info.total_bytes - 20 * GIB
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_launch_limit_is_not_called_memory():
    class TooManyBlocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)

        def forward(self, x):
            # This kernel puts the batch on the grid's third axis, which ends at 65,535.
            return self.linear(torch.nn.functional.fractional_max_pool2d(x, 2, output_size=2)[..., :1]).mean()

    workload = mm.Workload(
        build=TooManyBlocks,
        batch=lambda size, device: {"x": torch.rand(size, 1, 4, 4, device=device)},
        loss=lambda model, batch: model(**batch),
    )
    probe = MeasuredProbe(workload, mm.Recipe(), open_device(mm.Target(device="cuda")))
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, limit=200_000)
    assert found.blocker.failure.kind == "limit"
    assert found.maximum == 65_535

"""What only a real GPU can show. Sizes are small, so that the whole file takes about a minute."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import memorymark as mm
from memorymark.devices import nvml
from memorymark.probe.remote import RemoteProbe
from memorymark.units import GIB, MIB

pytestmark = pytest.mark.gpu


def capped(model, cap_gib=4.0, **recipe):
    target = mm.Target(device="cuda", memory_cap_bytes=int(cap_gib * GIB))
    return mm.Request(model=model, recipe=mm.Recipe(**recipe), target=target)


def test_breakdown_adds_up_to_what_the_device_holds():
    _, trial = mm.measure(capped("bert"), 32)
    assert trial.breakdown.total_bytes == trial.device_bytes
    assert trial.breakdown.weights_bytes == pytest.approx(109_483_778 * 4, rel=0.01)
    assert trial.breakdown.optimizer_state_bytes == pytest.approx(2 * 109_483_778 * 4, rel=0.01)
    assert trial.breakdown.activations_bytes > 0.3 * trial.peak_allocated_bytes
    assert min(vars(trial.breakdown).values()) >= 0
    assert trial.peak_allocated_bytes <= trial.peak_reserved_bytes < trial.device_bytes
    assert 300 * MIB < trial.breakdown.context_bytes < 2 * GIB


def test_gradients_are_at_the_peak_when_the_optimizer_makes_it():
    _, trial = mm.measure(capped("bert"), 1)
    assert trial.breakdown.gradients_bytes == pytest.approx(109_483_778 * 4, rel=0.01)


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"precision": "fp16"},
        {"precision": "bf16", "gradient_checkpointing": True},
        {"fused": True, "tf32": True},
        {"optimizer": "adafactor"},
        {"accumulation_steps": 3},
    ],
)
def test_maximum_is_exact_under_every_recipe(recipe):
    request = capped("bert", **recipe)
    result = mm.analyze(request, max_batch=None)
    assert result.max_is_exact and result.limited_by == "memory"
    assert result.at(result.max_batch_size).fits
    assert result.recommended.peak_reserved_bytes <= 0.95 * 4 * GIB
    assert result.recommended.allocator_retries == 0


def test_channels_last_and_bf16_run_on_resnet():
    _, plain = mm.measure(capped("resnet", precision="bf16"), 64)
    _, better = mm.measure(capped("resnet", precision="bf16", channels_last=True), 64)
    assert plain.fits and better.fits
    assert better.samples_per_second > plain.samples_per_second


def test_memory_returns_to_the_baseline_after_out_of_memory():
    with RemoteProbe(capped("bert")) as probe:
        first = probe.measure(8)
        worker = probe.pid
        assert not probe.try_batch(2000).fits
        again = probe.measure(8)
        assert probe.pid == worker, "the worker was replaced, so memory was left behind"
    assert again.peak_allocated_bytes == first.peak_allocated_bytes


def test_killed_worker_gives_the_memory_back():
    before = nvml.used_bytes(0)
    with RemoteProbe(capped("bert")) as probe:
        probe.try_batch(16)
        assert nvml.used_bytes(0) > before + GIB
        threading.Timer(0.3, os.kill, (probe.pid, signal.SIGKILL)).start()
        with pytest.raises(mm.WorkerError, match="killed"):
            for _ in range(100):
                probe.measure(16)
    assert nvml.used_bytes(0) < before + 100 * MIB


def test_ctrl_c_leaves_no_worker_and_no_memory_behind():
    before = nvml.used_bytes(0)
    code = "import memorymark as mm; mm.analyze(mm.Request(model='bert'))"
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    while nvml.used_bytes(0) < before + GIB:
        time.sleep(0.2)
    caller.send_signal(signal.SIGINT)
    assert caller.wait(timeout=30) != 0
    caller.stderr.close()
    time.sleep(1)
    assert nvml.used_bytes(0) < before + 100 * MIB


def test_what_others_hold_is_seen_and_respected():
    hog = "import torch, time; x = torch.empty(20 * 2**30, dtype=torch.uint8, device='cuda'); print('ok', flush=True); time.sleep(300)"
    other = subprocess.Popen([sys.executable, "-c", hog], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        info, trial = mm.measure(mm.Request(model="resnet", target=mm.Target(device="cuda")), 8)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert trial.breakdown.other_processes_bytes > 20 * GIB
    assert info.capacity_bytes < info.total_bytes - 20 * GIB
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_launch_limit_is_not_called_memory():
    # 2**31 tokens of one id each cannot be indexed by every kernel, but nothing here is short of memory.
    with RemoteProbe(mm.Request(model="bert", seq_len=1, target=mm.Target(device="cuda"))) as probe:
        trial = probe.try_batch(70_000)
    assert trial.fits or trial.failure.kind in ("limit", "memory")

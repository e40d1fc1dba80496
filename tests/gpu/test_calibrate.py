"""Calibrating a real GPU: how long it takes, and that predictions for it are no worse with what it wrote."""

import time

import pytest
import torch

import memorymark as mm
from memorymark.calibration.plan import planned_cases
from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.engine.calibrate import calibrate
from memorymark.prediction.calibration.correction import Correction
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.profiles.stored import profiles_for
from support.decoders import llama

pytestmark = pytest.mark.gpu

MOST_SECONDS = 90
# A step of this decoder takes the GPU far longer than the host.
DECODER = llama(
    seq_len=512,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=4,
    num_attention_heads=16,
    vocab_size=32_000,
)
BATCH_SIZE = 8


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MEMORYMARK_PROFILES", str(tmp_path_factory.mktemp("profiles")))
        started = time.monotonic()
        profile, _ = calibrate()
        taken = time.monotonic() - started
        yield profile, taken, profiles_for(None, profile.gpu_id)


def test_a_calibration_takes_at_most_ninety_seconds_and_times_most_of_the_plan(calibrated):
    profile, taken, used = calibrated

    assert taken < MOST_SECONDS
    assert len(profile.operations) > 0.8 * len(planned_cases())
    assert sum(not one.waited_for_host for one in profile.operations) > 0.6 * len(profile.operations)
    assert list(used) == [profile.gpu_id]


def test_the_profile_says_what_it_is_of(calibrated):
    profile, *_ = calibrated

    assert profile.gpu_name == torch.cuda.get_device_name()
    assert (profile.torch, profile.cuda) == (torch.__version__, torch.version.cuda)
    assert profile.driver
    assert profile.host is not None
    assert 1e9 < profile.to_device_bytes_per_second < 1e12
    assert 1e9 < profile.to_host_bytes_per_second < 1e12


@pytest.mark.parametrize("recipe", [mm.Recipe(), mm.Recipe(precision="bf16")], ids=["fp32", "bf16"])
def test_the_predicted_step_is_near_the_measured_one(calibrated, recipe):
    profile, *_ = calibrated
    gpu = match_gpu(torch.cuda.get_device_name())
    with MeasuredProbe(DECODER, recipe, open_device(mm.Target(device="cuda"))) as probe:
        measured = probe.measure(BATCH_SIZE).step_seconds
    step = trace_training(DECODER, recipe, gpu.capability)

    predicted = PredictedProbe(step, recipe, gpu, correction=Correction(profile, gpu)).measure(BATCH_SIZE)

    assert predicted.step_seconds == pytest.approx(measured, rel=0.2)

"""Predicting with a profile of the GPU: other times, the same memory, and another GPU's profile is left behind."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.devices.resolve import for_gpu
from memorymark.prediction.calibration.correction import Correction
from memorymark.probe.local import LocalProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.profiles.profile import HostStep
from memorymark.profiles.stored import install
from support.probes import A10, predicted
from support.profiles import SHIPPED, invented
from support.tiny import tiny

H200 = find_gpu("h200")
SMALL = SHIPPED.operations[:40]
# As long as the rules say, three times over.
SLOW_HOST = HostStep(
    seconds=3 * (0.6e-3 + 100 * 49e-6 + 10 * 32e-6), eager_calls=100, autograd_calls=0, views=0, updated_tensors=10
)


@pytest.fixture
def step():
    return predicted(tiny(), mm.Recipe()).step


def corrected(step, factor=1.0, **facts):
    profile = invented("a10", lambda _: factor, operations=SMALL, **facts)
    return PredictedProbe(step, mm.Recipe(), A10, correction=Correction(profile, A10))


def test_a_slow_host_makes_steps_slower_that_wait_for_it(step):
    before, after = (corrected(step, host=host).measure(4).step_seconds for host in (None, SLOW_HOST))

    assert after == pytest.approx(3 * before, rel=0.01)


def test_memory_is_not_corrected(step):
    before, after = PredictedProbe(step, mm.Recipe(), A10).measure(64), corrected(step, 5.0).measure(64)

    assert replace(after, step_seconds=None, samples_per_second=None, intervals=None) == replace(
        before, step_seconds=None, samples_per_second=None, intervals=None
    )


@pytest.mark.parametrize(("gpu", "knowledge"), [(H200, "measured"), (A10, "datasheet")])
def test_what_is_known_of_a_gpu_is_a_field(step, gpu, knowledge):
    info = PredictedProbe(step, mm.Recipe(), gpu).info

    assert (info.gpu_knowledge, info.gpu_profile) == (knowledge, "")


def test_nothing_measured_rests_on_what_is_known_of_a_gpu():
    with LocalProbe(tiny(), mm.Recipe(), mm.Target(device="cpu")) as probe:
        assert probe.info.gpu_knowledge is None


def test_each_gpu_has_its_own_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_PROFILES", str(tmp_path))
    install(invented("a10", lambda _: 2.0, operations=SMALL))

    with LocalProbe(tiny(), mm.Recipe(), mm.Target(gpu="t4")) as probe:
        found = [probe.info.gpu_knowledge]
        for gpu in ("a10", "h200", "A10"):
            probe.retarget(find_gpu(gpu))
            found.append(probe.info.gpu_knowledge)

    assert [knowledge == "calibrated" for knowledge in found] == [False, True, False, True]


@pytest.mark.parametrize(
    ("before", "gpu", "after"),
    [("h200", H200, "h200"), ("h200", A10, None), ("none", A10, "none"), (None, A10, None)],
)
def test_another_gpus_profile_is_left_behind(before, gpu, after):
    target = for_gpu(mm.Target(gpu="H200", profile=before), gpu)

    assert (target.gpu, target.profile) == (gpu.id, after)

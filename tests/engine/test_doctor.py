import platform
import sys

import pytest
import torch
from typer.testing import CliRunner

from memorymark.cli.main import app
from memorymark.devices import nvml
from memorymark.devices.nvml import GpuState
from memorymark.engine.doctor import check_all
from memorymark.units import GIB

H200 = GpuState("NVIDIA H200", 140 * GIB, used_bytes=GIB // 2, driver_version="570.1")
BUSY = GpuState("NVIDIA H200", 140 * GIB, used_bytes=20 * GIB, driver_version="570.1")
UNKNOWN = GpuState("NVIDIA Z9000", 999 * GIB, used_bytes=0, driver_version="999")
GPU_HERE = torch.cuda.is_available() or torch.backends.mps.is_available()
needs_no_gpu = pytest.mark.skipif(GPU_HERE, reason="there is a GPU here")


@pytest.fixture(autouse=True)
def no_allocator_setting(monkeypatch):
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)


@pytest.fixture
def driver_shows(monkeypatch):
    """Makes the driver show these GPUs."""
    return lambda *states: monkeypatch.setattr(nvml, "gpus", lambda: list(states))


def checks():
    return {check.name: check for check in check_all()}


def test_the_interpreter_and_the_libraries_of_this_process_are_found():
    found = checks()

    assert platform.python_version() in found["Python"].found
    assert sys.executable in found["Python"].found
    assert torch.__version__ in found["torch"].found
    assert found["transformers"].status == "ok"


@needs_no_gpu
def test_without_a_gpu_the_advice_says_what_happens_instead():
    gpu = checks()["GPU"]

    assert (gpu.status, gpu.found) == ("warn", "none found")
    assert "analyze predicts" in gpu.advice and "--gpu" in gpu.advice


@needs_no_gpu
def test_a_gpu_that_this_torch_cannot_use_is_a_failure(driver_shows):
    driver_shows(H200)

    assert checks()["torch"].status == "fail"
    assert "install the torch build that matches the driver" in checks()["torch"].advice


@pytest.mark.parametrize(
    ("gpu", "status", "advice"),
    [
        pytest.param(H200, "ok", "", id="known and idle"),
        pytest.param(BUSY, "warn", "nvidia-smi lists them", id="busy"),
        pytest.param(UNKNOWN, "ok", "pass --price-per-hour", id="without a price"),
    ],
)
def test_each_gpu_is_checked(driver_shows, gpu, status, advice):
    driver_shows(H200, gpu)

    check = checks()["GPU 1"]

    assert check.status == status
    assert gpu.name in check.found
    assert gpu.driver_version in check.found
    assert (advice in check.advice) if advice else check.advice == ""


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_an_allocator_setting_is_shown_because_results_hold_for_it_only(monkeypatch, name):
    assert "allocator" not in checks()
    monkeypatch.setenv(name, "expandable_segments:True")

    assert checks()["allocator"].status == "warn"
    assert checks()["allocator"].found == f"{name}=expandable_segments:True"


def test_without_torch_the_doctor_says_how_to_get_it_and_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    result = CliRunner().invoke(app, ["doctor"])

    assert result.exit_code == 1
    assert "pip install 'torch>=2.6'" in result.output

"""``memorymark watch`` on a real GPU: its numbers against torch's own, on the scripts of benchmarks/watched."""

import subprocess
import sys

import pytest

from memorymark.units import GIB
from watch import SCRIPTS, Run, environment

pytestmark = pytest.mark.gpu
CAP_GIB = 6


@pytest.fixture(scope="module")
def runs():
    """The three scripts, watched; one after the other, so that their times are their own."""
    options = ("--batch-size", 16, "--steps", 14, "--cap-gib", CAP_GIB)
    return {script: Run(script, *options, watched=True).wait() for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_peak_is_torchs_own(runs, script):
    document, true = runs[script].document(), runs[script].facts()
    assert document["problem"] is None
    assert (document["steps"], document["batch_size"], document["micro_batches"]) == (14, 16, 1)
    for name in ("peak_allocated_bytes", "peak_reserved_bytes"):
        assert abs(document["memory"][name] / true[name] - 1) < 0.01


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_peak_is_broken_down(runs, script):
    document = runs[script].document()
    breakdown, weights = document["breakdown"], 4 * document["model"]["parameters"]
    assert abs(breakdown["weights_bytes"] / weights - 1) < 0.01
    assert abs(breakdown["optimizer_state_bytes"] / (2 * weights) - 1) < 0.01
    assert breakdown["activations_bytes"] > 0.1 * GIB
    assert sum(breakdown.values()) == document["memory"]["device_bytes"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_estimated_maximum_is_within_five_per_cent(runs, script):
    estimate = runs[script].document()["estimate"]["maximum"]
    options = ("--steps", 4, "--cap-gib", CAP_GIB, "--workers", 0)
    fits = Run(script, *options, "--batch-size", int(0.95 * estimate))
    fails = Run(script, *options, "--batch-size", int(1.05 * estimate) + 1)
    assert fits.wait().code == 0, fits.text[-2000:]
    assert fails.wait().code != 0
    assert "out of memory" in fails.text


def test_what_the_script_does_is_seen(runs):
    document = runs["plain"].document()
    assert document["device"]["capped"]
    assert abs(document["device"]["capacity_bytes"] / (CAP_GIB * GIB) - 1) < 0.01
    assert {"precision", "optimizer"} <= {finding["kind"] for finding in document["findings"]}
    assert document["busy"] is None or 0 <= document["busy"] <= 1
    assert document["gpu_idle_seconds"] >= 0


def test_running_out_of_memory_is_explained():
    run = Run("plain", "--batch-size", 512, "--steps", 4, "--cap-gib", 4, "--workers", 0, watched=True).wait()
    document = run.document()
    assert run.code == 1
    assert document["ending"]["out_of_memory"]
    assert document["headline"].startswith("It ran out of memory with batch 512")


def test_a_history_that_the_script_records_itself_is_left_alone(tmp_path):
    script = tmp_path / "recorded.py"
    script.write_text(
        "import torch\n"
        "torch.cuda.memory._record_memory_history()\n"
        "model = torch.nn.Linear(64, 64).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(12):\n"
        "    model(torch.randn(8, 64, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "assert torch._C._cuda_isHistoryEnabled()\n"
        "events = torch.cuda.memory._snapshot()['device_traces'][0]\n"
        "print(sum(event['action'] == 'alloc' and event['size'] == 509 for event in events))\n"
    )
    command = [sys.executable, "-m", "memorymark", "watch", "--json", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr


def test_a_starved_script_is_told_so():
    document = Run("plain", "--starve", "--steps", 12, "--batch-size", 16, watched=True).wait().document()
    assert document["headline"] == "You are bound by the data loader, a larger batch will not help."
    assert document["lost"] > 0.5

"""``memorymark fleet`` on a host with a GPU."""

import json
import os
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.gpu


def test_this_process_and_its_memory_are_seen():
    held = torch.ones(2**28, device="cuda")  # 1 GiB
    torch.cuda.synchronize()

    ran = subprocess.run(
        [sys.executable, "-m", "memorymark", "fleet", "--json", "--quiet"], capture_output=True, text=True, check=False
    )
    del held

    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["sources"], found["sampled"]) == (["nvml"], True)
    assert found["gpus"] >= 1
    assert any(job["used_bytes"] >= 2**30 for job in found["jobs"])
    mine = [job for job in found["jobs"] if job["id"] == str(os.getpid())]
    assert all(job["verdict"] == "too_young" or job["age_seconds"] >= 600 for job in mine)

import gc
import os
import shutil
import tempfile
from importlib import import_module

# One thread: steps take the same time whatever else the machine does, and so do the workers that the tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX and then forbid it: bf16 products would end the process with SIGILL.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Nobody's profiles correct what the tests predict, and their analyses are nobody's history.
os.environ["MEMORYMARK_PROFILES"] = tempfile.mkdtemp(prefix="memorymark-tests-")
os.environ["MEMORYMARK_DATABASE"] = f"sqlite:///{os.environ['MEMORYMARK_PROFILES']}/history.db"
# Every step is traced by the code under test; tests of what is kept have a folder of their own.
os.environ["MEMORYMARK_CACHE"] = "off"
os.environ.pop("MEMORYMARK_TOKEN", None)
os.environ.pop("MEMORYMARK_SERVER", None)

import pytest

pytest_plugins = ["support.browser", "support.databases", "support.forked_workers", "support.service"]

# By file, what takes longest: begun first, so that no tester is left with one of these when the others are done.
LONGEST = [
    "cluster/test_ray_cluster.py",
    "server/test_contract.py",
    "prediction/test_any_model.py",
    "server/test_faults.py",
    "server/test_server_faults.py",
    "prediction/tracing/test_layers.py",
    "prediction/tracing/test_spreading.py",
    "docs/test_blocks.py",
    "e2e/test_dashboard_advice.py",
    "e2e/test_dashboard.py",
    "prediction/test_truth.py",
    "probe/test_predicted.py",
    "advice/test_explain.py",
    "advice/test_matrix.py",
    "cli/test_advise.py",
    "cli/test_analyze.py",
    "cli/test_watch.py",
    "worker/test_child.py",
    "test_light_install.py",
    "models/test_workloads.py",
]


def pytest_collection_modifyitems(items):
    def place(item):
        file = item.nodeid.partition("::")[0].removeprefix("tests/")
        return LONGEST.index(file) if file in LONGEST else len(LONGEST)

    items.sort(key=place)


def pytest_collection_finish():
    """What has been imported stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    shutil.rmtree(os.environ["MEMORYMARK_PROFILES"], ignore_errors=True)


@pytest.fixture(scope="session")
def shared_worker():
    """One worker for all tests that only want answers: to import torch and transformers takes seconds each time."""
    from memorymark.worker.supervisor import KeptWorkers

    kept = KeptWorkers()
    yield kept
    kept.close()


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared(shared_worker):
    """What asks for a worker gets the shared one, one question at a time; tests of workers override this."""
    from memorymark.worker import remote
    from memorymark.worker import supervisor as process

    with pytest.MonkeyPatch.context() as patched:
        for module in (process, remote):
            patched.setattr(module, "FreshWorkers", lambda: shared_worker)
        patched.setattr(import_module("memorymark.answer"), "lanes_here", lambda: 1)
        yield

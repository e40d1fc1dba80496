import os
import tempfile

# One thread: steps take the same time whatever else the machine does, and so do the workers that the tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX and then forbid it: bf16 products would end the process with SIGILL.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# The tests' analyses are nobody's history.
os.environ["MEMORYMARK_DATABASE"] = f"sqlite:///{tempfile.mkdtemp(prefix='memorymark-tests-')}/history.db"
# Every step is traced by the code under test; tests of what is kept have a folder of their own.
os.environ["MEMORYMARK_CACHE"] = "off"
os.environ.pop("MEMORYMARK_TOKEN", None)
os.environ.pop("MEMORYMARK_SERVER", None)

import pytest

# By file, what takes longest: begun first, so that no tester is left with one of these when the others are done.
LONGEST = [
    "server/test_contract.py",
    "test_any_model_truth.py",
    "server/test_faults.py",
    "server/test_server_faults.py",
    "e2e/test_dashboard.py",
    "test_prediction_truth.py",
    "test_predicted_probe.py",
    "test_cli.py",
    "test_watch.py",
    "test_worker.py",
    "test_models.py",
]


def pytest_collection_modifyitems(items):
    def place(item):
        file = item.nodeid.partition("::")[0].removeprefix("tests/")
        return LONGEST.index(file) if file in LONGEST else len(LONGEST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def shared_worker():
    """One worker for all tests that only want answers: to import torch and transformers takes seconds each time."""
    from memorymark.probe.process import KeptWorkers

    kept = KeptWorkers()
    yield kept
    kept.close()


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared(shared_worker):
    """What asks for a worker gets the shared one; tests of what becomes of workers override this."""
    from memorymark.probe import process, remote

    with pytest.MonkeyPatch.context() as patched:
        for module in (process, remote):
            patched.setattr(module, "FreshWorkers", lambda: shared_worker)
        yield

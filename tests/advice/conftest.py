import pytest

from memorymark.advice import inquiry
from memorymark.catalog import find_gpu

H200 = find_gpu("h200")


@pytest.fixture(autouse=True)
def gpu_here(monkeypatch):
    """As on a machine with an H200."""
    monkeypatch.setattr(inquiry, "gpu_here", lambda target: H200 if target.gpu is None else None)

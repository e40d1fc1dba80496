import pytest


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared():
    """None: on a GPU a worker must be gone before the next one measures."""


def pytest_collection_modifyitems(items):
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))

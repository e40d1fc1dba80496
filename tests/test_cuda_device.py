from types import SimpleNamespace

import pytest
import torch

from memorymark.devices.cuda import scratch_limit_bytes


@pytest.mark.parametrize(
    ("properties", "limit_bytes"),
    [({"multi_processor_count": 132, "max_threads_per_multi_processor": 2048}, 138_412_032), ({}, None)],
)
def test_the_scratch_space_of_reductions_is_limited_by_the_threads_of_the_gpu(monkeypatch, properties, limit_bytes):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))
    assert scratch_limit_bytes(torch.device("cuda", 0)) == limit_bytes

"""Facts behind a result, as documents of this version and of earlier ones say them."""

from dataclasses import replace

import pytest

from memorymark.catalog import find_gpu
from memorymark.results.probe_info import ProbeInfo
from support.advices import INFO

FACTS = ("gpu_id", "optimizer_is_sgd", "sample_sizes", "convolves_images")


def test_facts_come_back_as_they_were():
    info = replace(INFO, convolves_images=True, optimizer="Mine", optimizer_is_sgd=True)

    assert ProbeInfo.from_dict(info.to_dict()) == info
    assert info.gpu == find_gpu("h200")


@pytest.mark.parametrize(
    ("name", "gpu_id"), [("NVIDIA H200", "h200"), ("Tesla T4", "t4"), ("NVIDIA V100 16 GB", "v100-16gb"), ("CPU", None)]
)
@pytest.mark.parametrize(("optimizer", "is_sgd"), [("SGD", True), ("AdamW", False), ("", False)])
def test_an_older_document_tells_the_gpu_and_the_optimizer_by_their_names(name, gpu_id, optimizer, is_sgd):
    written = replace(INFO, device_name=name, optimizer=optimizer).to_dict()
    older = {key: value for key, value in written.items() if key not in FACTS}

    info = ProbeInfo.from_dict(older)

    assert (info.gpu_id, info.optimizer_is_sgd) == (gpu_id, is_sgd)
    assert (info.sample_sizes, info.convolves_images) == ({}, False)

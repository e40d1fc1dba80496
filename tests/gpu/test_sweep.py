"""A sweep on a real GPU: here, and through a Ray cluster of this machine."""

from contextlib import closing

import pytest

from memorymark.devices.machine import gpus_here
from memorymark.history import Store
from memorymark.sweep.local import LocalEngine
from memorymark.sweep.running import Sweeping
from support.sweeps import cases, ray_cluster

pytestmark = pytest.mark.gpu


@pytest.fixture
def grid():
    here = sorted(gpus_here())
    if not here:
        pytest.skip("the GPU here is not in the catalog, so no case can name it")
    return f"model: bert\nsmall: true\nseq_len: 8\nmax_batch: [8, 16]\ngpu: {here[0]}\n", here[0]


def swept(engine, document, folder):
    with closing(Store(f"sqlite:///{folder / 'history.db'}")) as store:
        return Sweeping(cases(document), engine, store).run()


def test_cases_are_measured_on_the_gpu_that_they_name_and_predicted_beside(grid, tmp_path):
    document, gpu = grid
    measured = swept(LocalEngine(workers=1), f"{document}measure: true\n", tmp_path)
    predicted = swept(LocalEngine(workers=1), document, tmp_path)

    assert [(case.source, case.gpu, case.max_batch_size) for case in measured.cases] == [
        ("measured", gpu, 8),
        ("measured", gpu, 16),
    ]
    assert [case.source for case in predicted.cases] == ["predicted"] * 2


def test_a_node_of_a_cluster_measures_on_its_gpu(grid, tmp_path):
    from memorymark.sweep.on_ray import RayEngine

    document, gpu = grid
    with ray_cluster({"num_gpus": 1}) as (cluster, _):
        measured = swept(RayEngine(cluster.address), f"{document}measure: true\n", tmp_path)

    assert [(case.source, case.gpu, case.error) for case in measured.cases] == [("measured", gpu, None)] * 2

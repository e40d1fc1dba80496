"""Sweeps and the service on a real Ray cluster on this machine: a head and two more raylets."""

from contextlib import closing
from pathlib import Path

import pytest

from memorymark.errors import UsageError
from memorymark.history import Store
from memorymark.sweep.local import LocalEngine
from memorymark.sweep.running import Sweeping
from support.calls import QUICK, SLOW, Caller
from support.processes import is_running, wait_until
from support.service import quick_service
from support.sweeps import SHARED, answers, cases, finished, margins, ray_cluster

SIXTY = SHARED + margins(15)
PRETENDED = {"num_gpus": 1, "resources": {"accelerator_type:H200": 1}}


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster({}, PRETENDED) as (cluster, nodes):
        yield cluster, nodes


@pytest.fixture(scope="module")
def engine(cluster):
    from memorymark.sweep.on_ray import RayEngine

    return lambda: RayEngine(cluster[0].address)


def swept(url, engine, document, **options):
    with closing(Store(url)) as store:
        return Sweeping(cases(document), engine, store, **options).run()


def test_a_gpu_to_measure_on_is_looked_for_in_the_nodes(engine, tmp_path):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    found = engine()

    assert [(one.gpu, one.name) for one in found.gpus] == [("h200", "H200")]
    found.require(cases("model: bert\ngpu: h200\nmeasure: true\n"))
    with pytest.raises(UsageError, match="no node of the cluster has the GPU t4; it has h200"):
        swept(url, engine(), "model: bert\ngpu: [h200, t4]\nmeasure: true\n")
    with pytest.raises(UsageError, match="measures on GPUs that are named"):
        swept(url, engine(), "model: bert\ndevice: cpu\n")
    assert finished(url) == {}


def test_what_is_measured_runs_where_that_gpu_should_be(engine, tmp_path):
    """The node only pretends to have it, so that what comes back is that torch finds none there."""
    grid = swept(
        f"sqlite:///{tmp_path / 'history.db'}", engine(), "model: bert\nsmall: true\ngpu: h200\nmeasure: true\n"
    )

    assert [(case.gpu, case.error_code) for case in grid.cases] == [("h200", "no_device")]


def test_what_is_interrupted_ends_its_tasks(engine, tmp_path):
    import ray

    def interrupt(progress):
        if progress.done == 1:
            raise KeyboardInterrupt

    url = f"sqlite:///{tmp_path / 'history.db'}"
    with pytest.raises(KeyboardInterrupt):
        swept(url, engine(), SHARED + margins(4), on_progress=interrupt)

    assert sum(finished(url).values()) == 1
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0)


def ancestors(pid):
    """The processes above one, the nearest first."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def raylet_of(node):
    (raylet,) = node.all_processes["raylet"]
    return raylet.process.pid


def test_the_service_has_its_workers_on_the_nodes(cluster, tmp_path):
    nodes = cluster[1]
    with quick_service(tmp_path / "history.db", engine="ray", address=cluster[0].address) as service:
        call = Caller(service.port)
        health = call.get("/health").json
        (gpu,) = [lane for lane in health["workers"] if lane["device"] == "cuda:0"]
        answer = call.post("/analyze", QUICK).json
        predicting = call.lane("prediction-0")
        measuring = wait_until(lambda: call.lane("gpu-0")["pid"])
        above = [ancestors(predicting["pid"]), ancestors(measuring)]
        here = {one["id"] for one in call.get("/gpus").json["gpus"] if one["here"]}
        job = call.submit(SLOW)
        working = wait_until(lambda: (lane := call.lane("prediction-0"))["job"] == job and lane["pid"])
        call.delete(f"/jobs/{job}")
        wait_until(lambda: call.job(job)["state"] == "cancelled")
        wait_until(lambda: not is_running(working))

    assert gpu["name"] == "gpu-0"
    assert [(one["device"], one["gpu"], one["name"]) for one in health["gpus"]] == [("cuda:0", "h200", "H200")]
    assert (health["gpu_available"], "h200" in here) == (True, True)
    assert answer["status"] == "success"
    assert {raylet_of(node) for node in nodes} & set(above[0])
    assert raylet_of(nodes[1]) in above[1]
    wait_until(lambda: not is_running(measuring))


def test_sixty_predictions_are_those_of_this_machine_though_a_node_dies(cluster, engine, tmp_path):
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("local", "cluster")]
    killed = []

    def kill_one(progress):
        if progress.done == 12 and not killed:
            killed.append(cluster[1][0])
            cluster[0].remove_node(killed[0], allow_graceful=False)

    here = swept(urls[0], LocalEngine(workers=1), SIXTY)
    there = swept(urls[1], engine(), SIXTY, on_progress=kill_one, together_at_most=5)

    assert killed
    assert (len(there.cases), there.failed, here.failed) == (60, 0, 0)
    assert answers(urls[1]) == answers(urls[0])
    assert list(finished(urls[1]).values()) == [1] * 60

"""What is said where there is no cluster, and which GPUs its nodes have."""

import sys

import pytest

from memorymark.cluster.connecting import connected
from memorymark.cluster.nodes import cluster_gpus
from memorymark.errors import MemoryMarkError, UsageError


def test_where_ray_is_not_installed_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(UsageError, match=r"Ray is not installed here; run `pip install 'memorymark\[ray\]'`"):
        connected(None)


def test_a_ray_client_is_refused():
    pytest.importorskip("ray", reason="Ray is not installed here")

    with pytest.raises(UsageError, match="cannot stream results") as refusal:
        connected("ray://10.0.0.1:10001")
    assert (refusal.value.field, refusal.value.given) == ("address", "ray://10.0.0.1:10001")


def test_where_nothing_listens_it_says_so_at_once():
    pytest.importorskip("ray", reason="Ray is not installed here")

    with pytest.raises(MemoryMarkError, match=r"no Ray cluster answers at 127.0.0.1:1; start one with `ray start`"):
        connected("127.0.0.1:1")


class Nodes:
    """Ray as far as it tells of nodes; none of them answers."""

    class exceptions:  # noqa: N801 - Ray's name
        RayError = RuntimeError

    def __init__(self, *resources, alive=True):
        self._nodes = [
            {"NodeID": str(number), "NodeManagerHostname": f"node-{number}", "Alive": alive, "Resources": one}
            for number, one in enumerate(resources)
        ]
        self.util = self

    def nodes(self):
        return self._nodes

    @property
    def scheduling_strategies(self):
        return self

    def NodeAffinitySchedulingStrategy(self, node, soft):  # noqa: N802 - Ray's name
        return node

    def remote(self, **_):
        return lambda _function: self

    def options(self, **_):
        return type("Bound", (), {"remote": staticmethod(lambda: object())})

    def wait(self, asked, **_):
        return [], asked


@pytest.mark.parametrize(
    ("kind", "gpu"),
    [("H200", "h200"), ("L4", "l4"), ("A10G", "a10g"), ("T4", "t4"), ("A100-80GB", "a100-80gb"), ("A100", None)],
)
def test_where_the_driver_does_not_tell_the_gpu_is_the_one_that_ray_found(kind, gpu):
    """An A100 may have 40 or 80 GB, so that its name alone means neither."""
    found = cluster_gpus(Nodes({"CPU": 8.0, "GPU": 2.0, f"accelerator_type:{kind}": 1.0}, {"CPU": 4.0}))

    assert [(one.node, one.host, one.gpu) for one in found] == [("0", "node-0", gpu)] * 2


def test_a_node_that_is_gone_has_no_gpus():
    assert cluster_gpus(Nodes({"GPU": 1.0}, alive=False)) == []

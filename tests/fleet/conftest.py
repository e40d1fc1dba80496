"""One Prometheus for all tests of this folder, that has scraped a week of a cluster."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.calls import Caller
from support.fleet_cluster import NODES, PODS, exporter
from support.processes import wait_until
from support.servers import free_port, program, started

DATA = Path(__file__).parents[1] / "data" / "fleet"
SETTINGS = """
global: {{scrape_interval: 2s, scrape_timeout: 2s}}
storage: {{tsdb: {{out_of_order_time_window: 8d}}}}
scrape_configs:
- job_name: nodes
  static_configs: [{{targets: ['127.0.0.1:{nodes}']}}]
- job_name: pods
  static_configs:
  - targets: ['127.0.0.1:{pods}']
    labels: {{namespace: gpu-operator, pod: nvidia-dcgm-exporter-x7x, container: nvidia-dcgm-exporter}}
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The address of a real Prometheus that scraped the week, and what squeue says at that time."""
    binary, folder, port = program("prometheus", "prometheus"), tmp_path_factory.mktemp("fleet"), free_port()
    with exporter(NODES) as nodes, exporter(PODS) as pods:
        (folder / "prometheus.yml").write_text(SETTINGS.format(nodes=nodes, pods=pods))
        command = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with started([*command, f"--web.listen-address=127.0.0.1:{port}"], port, folder / "log"):
            call = Caller(port)
            wait_until(lambda: scraped(call))
            (folder / "squeue.json").write_text(json.dumps(squeue()))
            yield SimpleNamespace(url=f"http://127.0.0.1:{port}", squeue=str(folder / "squeue.json"))


def scraped(call):
    """Whether both exporters were scraped."""
    answer = call.get("/api/v1/query?query=sum(up)")
    return answer.status == 200 and [one["value"][1] for one in answer.json["data"]["result"]] == ["2"]


def squeue():
    """What squeue says now, of jobs that began as long ago as the file says."""
    document = json.loads((DATA / "squeue.json").read_text())
    for job in document["jobs"]:
        job["start_time"]["number"] = int(time.time() - job["start_time"]["number"])
    return document

"""A cluster that never was: what each GPU does at any time, and exporters that replay it as dcgm-exporter would say it.

Names of metrics and labels are those of dcgm-exporter 4.5; the numbers are made. tests/data/fleet has its Slurm.
"""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MINUTE, HOUR, DAY = 60, 3600, 86400
WEEK = 7 * DAY
A100, A100_40 = ("NVIDIA A100-SXM4-80GB", 81920), ("NVIDIA A100-SXM4-40GB", 40960)
H100 = ("NVIDIA H100 80GB HBM3", 81559)
RESERVED = 550


@dataclass(frozen=True)
class Doing:
    """What a GPU does at a moment: utilization in %, MiB in use, parts of its cycles."""

    util: float
    used: int
    tensor: float
    dram: float


def idle(_):
    return Doing(0, 3_000, 0.0, 0.0)


def trained_until_five_days_ago(age):
    return Doing(92, 60_000, 0.4, 0.5) if age > 5 * DAY else Doing(0, 60_000, 0.0, 0.0)


def oversized(age):
    return Doing(30 + age // MINUTE % 5, 9_216, 0.04, 0.06)


def data_bound(age):
    """Every third sample at full speed, the others waiting, with the memory held."""
    return Doing(100, 63_000, 0.5, 0.5) if age // MINUTE % 3 == 1 else Doing(4, 63_000, 0.01, 0.01)


def fine(age):
    return Doing(93 + age // MINUTE % 6, 71_000, 0.45, 0.5)


def tensor_idle(_):
    return Doing(98, 34_000, 0.0, 0.35)


@dataclass(frozen=True)
class Gpu:
    host: str
    index: int
    model: tuple
    does: object
    labels: tuple = ()
    since: float = 8 * DAY

    def lines(self, age, timestamp=""):
        """What an exporter says of it, ``age`` seconds ago."""
        doing, (name, total) = self.does(age), self.model
        labels = {
            "gpu": self.index,
            "UUID": f"GPU-{self.host}-{self.index}",
            "pci_bus_id": f"00000000:0{self.index}:00.0",
            "device": f"nvidia{self.index}",
            "modelName": name,
            "Hostname": self.host,
            "DCGM_FI_DRIVER_VERSION": "580.95.05",
            **dict(self.labels),
        }
        said = ",".join(f'{label}="{value}"' for label, value in labels.items())
        values = {
            "DCGM_FI_DEV_GPU_UTIL": doing.util,
            "DCGM_FI_DEV_FB_USED": doing.used,
            "DCGM_FI_DEV_FB_FREE": total - RESERVED - doing.used,
            "DCGM_FI_DEV_FB_RESERVED": RESERVED,
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": doing.tensor,
            "DCGM_FI_PROF_DRAM_ACTIVE": doing.dram,
        }
        return [(metric, f"{metric}{{{said}}} {value}{timestamp}\n") for metric, value in values.items()]


def of(job):
    return (("hpc_job", str(job)),)


def pod(space, name):
    return (("namespace", space), ("pod", name), ("container", "main"))


NODES = [
    Gpu("g1", 0, A100, idle, of(4101)),
    Gpu("g1", 1, A100, trained_until_five_days_ago, of(4101)),
    Gpu("g1", 2, A100, oversized, of(4102)),
    Gpu("g1", 3, A100_40, tensor_idle, of(4107)),
    Gpu("g2", 0, H100, data_bound, of(4103)),
    Gpu("g2", 1, H100, fine, of(4104)),
    Gpu("g2", 2, H100, fine, of(4104)),
    Gpu("g2", 3, H100, idle, of(4108), since=3 * MINUTE),
    # No label names their jobs, only Slurm does.
    Gpu("g3", 0, H100, idle),
    Gpu("g3", 1, H100, fine),
    Gpu("g3", 2, H100, idle),
]
# Of these, Prometheus has labels of its own: those of the exporter's pod.
PODS = [Gpu("k1", 0, A100, idle, pod("team-a", "notebook-0")), Gpu("k1", 1, A100, idle)]
# What is wrong with whom.
PLANTED = {
    "4101": "idle",
    "4102": "oversized",
    "4103": "data_bound",
    "4106": "idle",
    "4107": "tensor_idle",
    "team-a/notebook-0": "idle",
}
FINE = {"4104": "fine", "4105": "fine", "4108": "too_young"}


def exposition(gpus, now, *, whole_week):
    """What an exporter says: what is now, or first all of the week, each sample with its time."""
    ages = [0.0]
    if whole_week:
        ages = [*range(WEEK, 75 * MINUTE, -10 * MINUTE), *range(75 * MINUTE, 0, -MINUTE)]
    by_metric = {}
    for gpu in gpus:
        for age in ages:
            if age <= gpu.since:
                timestamp = f" {round(1000 * (now - age))}" if whole_week else ""
                for metric, line in gpu.lines(age, timestamp):
                    by_metric.setdefault(metric, []).append(line)
    return "".join(f"# TYPE {metric} gauge\n{''.join(lines)}" for metric, lines in by_metric.items())


@contextmanager
def exporter(gpus):
    """Serves the metrics of GPUs: the whole week when it is first asked, then what is now."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = exposition(gpus, time.time(), whole_week=len(asked) == 1).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with serving_http(Handler) as port:
        yield port


@contextmanager
def serving_http(handler):
    """Runs an HTTP server in a thread."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

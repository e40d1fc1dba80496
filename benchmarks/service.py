"""The service under load: how fast it answers, whether watchers miss anything, whether it drains and does not grow.

python benchmarks/service.py [--parts=answers,crowd,drain,memory] [--watchers=200] [--reads=1000] [--drain=500]
    [--memory=1000] [--out=FOLDER]

Each part starts `memorymark serve` as a user would, with a history of its own, and talks to it over loopback. The
predictions are of BERT with a few layers for an A10, each at another price, so that the history answers none of them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cases import flags, machine, save, table

PARTS = ["answers", "crowd", "drain", "memory"]
REPEATS = 50
WATCHED_JOBS = 20
READERS = 8
PRICES = itertools.count(1)
PATIENCE_SECONDS = 600


def prediction() -> dict[str, Any]:
    """One that nobody has asked for yet; four traces are kept by a worker, so only the first few are traced."""
    price = next(PRICES)
    return {"model_name": "bert", "gpu": "a10", "small": True, "seq_len": 16 + price % 4, "price_per_hour": price}


class Service:
    """A server process and one connection to it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        return ask(self._connection, method, path, body)

    def json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = self.call(method, path, body)
        if status not in (200, 202):
            raise SystemExit(f"{method} {path} answered {status}: {answer.decode()}")
        return json.loads(answer)

    def submit(self) -> str:
        return self.json("POST", "/jobs", prediction())["job"]["id"]

    def metric(self, name: str) -> float:
        page = self.call("GET", "/metrics")[1].decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def ended(self) -> Counter[str]:
        """How many jobs have ended, by state."""
        page = self.call("GET", "/metrics")[1].decode()
        found = re.findall(r'^memorymark_jobs_total{state="(\w+)"} (\S+)$', page, re.MULTILINE)
        return Counter({state: int(float(count)) for state, count in found})

    def wait_for(self, count: int) -> Counter[str]:
        """Waits until so many jobs have ended."""
        while (ended := self.ended()).total() < count:
            time.sleep(0.1)
        return ended


@contextmanager
def service() -> Iterator[Service]:
    """A server that has answered once: its worker is warm and has traced the small model."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "memorymark", "serve", "--port", "0", "--quiet"]
        process = subprocess.Popen(
            [*command, "--database", f"sqlite:///{folder}/history.db"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            if found is None:
                raise SystemExit("the server did not start")
            started = Service(process, int(found[1]))
            started.json("POST", "/analyze", prediction())
            yield started
        finally:
            process.terminate()
            process.wait()


def ask(connection: HTTPConnection, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), kind)
    response = connection.getresponse()
    return response.status, response.read()


def answers() -> str:
    """A whole BERT, asked for the first time and again."""
    question = {"model_name": "bert"}
    with service() as server:
        start = time.perf_counter()
        server.json("POST", "/analyze", question)
        first_seconds = time.perf_counter() - start
        labels = '{endpoint="analyze",status="200"}'
        names = [f"memorymark_request_seconds_{kind}{labels}" for kind in ("sum", "count")]
        sum_before, count_before = map(server.metric, names)
        again = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            server.json("POST", "/analyze", question)
            again.append(time.perf_counter() - start)
        sum_after, count_after = map(server.metric, names)
        inside = (sum_after - sum_before) / (count_after - count_before)
    header = ["POST /analyze of BERT", "at the client", "inside the server"]
    rows = [
        ["for the first time, warm worker", f"{first_seconds:.2f} s", ""],
        [f"again, {REPEATS} times", f"median {1e3 * median(again):.1f} ms, most {1e3 * max(again):.1f} ms", ms(inside)],
    ]
    return table(header, rows)


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def watch(port: int, job_ids: list[str], heard: Any) -> None:
    """Watches every job until each stream has ended; tells how many have begun, then what each one brought."""
    texts: dict[socket.socket, bytes] = {}
    job_of: dict[socket.socket, str] = {}
    with selectors.DefaultSelector() as selector:
        for job_id in job_ids:
            watching = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
            watching.sendall(f"GET /jobs/{job_id}/events HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            texts[watching], job_of[watching] = b"", job_id
            selector.register(watching, selectors.EVENT_READ)
        told = False
        while selector.get_map():
            for key, _ in selector.select(timeout=PATIENCE_SECONDS):
                watching = key.fileobj
                assert isinstance(watching, socket.socket)
                data = watching.recv(65536)
                texts[watching] += data
                if not data:
                    selector.unregister(watching)
                    watching.close()
            if not told and all(texts.values()):
                told = True
                heard.send(len(texts))
    heard.send([(job_of[watching], numbers(text)) for watching, text in texts.items()])


def numbers(text: bytes) -> list[tuple[int, str]]:
    """The number and the kind of each event of a stream."""
    return [(int(number), kind.decode()) for number, kind in re.findall(rb"^id: (\d+)\nevent: (\w+)$", text, re.M)]


def read(port: int, paths: list[str], seconds: list[float], statuses: Counter[int]) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        for path in paths:
            start = time.perf_counter()
            status = ask(connection, "GET", path)[0]
            seconds.append(time.perf_counter() - start)
            statuses[status] += 1


def crowd() -> str:
    """Watchers and readers while predictions run."""
    watchers, reads = int(flags().get("watchers", 200)), int(flags().get("reads", 1000))
    with service() as server:
        start = time.perf_counter()
        job_ids = [server.submit() for _ in range(WATCHED_JOBS)]
        receiver, sender = get_context("fork").Pipe(duplex=False)
        watched = [job_ids[number % WATCHED_JOBS] for number in range(watchers)]
        watcher = get_context("fork").Process(target=watch, args=(server.port, watched, sender))
        watcher.start()
        receiver.recv()
        at_once = int(server.metric("memorymark_watchers"))
        running = server.json("GET", "/health")["queue"]
        paths = [
            ["/health", "/jobs", f"/jobs/{job_ids[number % WATCHED_JOBS]}", "/models"][number % 4]
            for number in range(reads)
        ]
        seconds: list[float] = []
        statuses: Counter[int] = Counter()
        began = time.perf_counter()
        readers = [
            threading.Thread(target=read, args=(server.port, paths[first::READERS], seconds, statuses))
            for first in range(READERS)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        read_seconds = time.perf_counter() - began
        left = server.json("GET", "/health")["queue"]
        streams = receiver.recv()
        all_seconds = time.perf_counter() - start
        watcher.join()
        expected = {job_id: [(e["id"], e["event"]) for e in events_of(server, job_id)] for job_id in job_ids}
        complete = sum(heard == expected[job_id] and heard[-1][1] == "result" for job_id, heard in streams)
    percent = quantiles(seconds, n=100)
    errors = reads - statuses[200]
    header = ["what", "value"]
    rows: list[list[object]] = [
        ["watchers, and open streams at once", f"{watchers}, {at_once}"],
        ["streams with every event of their job, in order", f"{complete} of {len(streams)}"],
        ["events sent", sum(len(heard) for _, heard in streams)],
        ["predictions watched", f"{WATCHED_JOBS}, in {all_seconds:.1f} s"],
        ["of these unfinished when reading began and ended", f"{sum_of(running)} and {sum_of(left)}"],
        ["reads, connections", f"{reads}, {READERS}"],
        ["reads that failed", errors],
        ["reads/s", f"{reads / read_seconds:.0f}"],
        ["time of a read: p50, p95, p99", ", ".join(ms(percent[at - 1]) for at in (50, 95, 99))],
    ]
    return table(header, rows)


def sum_of(queue: dict[str, int]) -> int:
    return queue["waiting"] + queue["running"]


def events_of(server: Service, job_id: str) -> list[dict[str, Any]]:
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", f"/jobs/{job_id}/events", headers={"Accept": "application/json"})
        return json.load(connection.getresponse())["events"]


def drain() -> str:
    """Many jobs asked for at once."""
    count = int(flags().get("drain", 500))
    with service() as server:
        start = time.perf_counter()
        for _ in range(count):
            server.submit()
        submitted = time.perf_counter() - start
        ended = server.wait_for(count + 1)
        seconds = time.perf_counter() - start
    failed = ended.total() - ended["done"]
    header = ["jobs", "all accepted after", "all done after", "jobs/s", "not done"]
    return table(header, [[count, f"{submitted:.1f} s", f"{seconds:.1f} s", f"{count / seconds:.1f}", failed]])


def memory() -> str:
    """What the server and its workers hold after many jobs."""
    count, rows = int(flags().get("memory", 1000)), []
    marks = [mark for mark in (1, 100, 500, 1000) if mark < count] + [count]
    with service() as server:
        asked = done = largest = 0
        for mark in marks:
            while done < mark:
                while asked < min(done + 50, mark):
                    server.submit()
                    asked += 1
                time.sleep(0.2)
                done = server.ended()["done"] - 1
                largest = max(largest, sum(map(resident_mib, workers_of(server.process.pid))))
            now = sum(map(resident_mib, workers_of(server.process.pid)))
            rows.append([mark, resident_mib(server.process.pid), now, largest])
            print(rows[-1], flush=True)
    return table(["jobs done", "server MiB", "its workers MiB", "workers at most MiB"], rows)


def resident_mib(pid: int) -> int:
    try:
        found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:  # it has just ended
        return 0
    return int(found[1]) // 1024 if found else 0


def workers_of(pid: int) -> list[int]:
    children = itertools.chain.from_iterable(
        path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")
    )
    return [int(child) for child in children]


def main() -> None:
    parts = flags().get("parts", ",".join(PARTS)).split(",")
    tables = []
    for part in parts:
        tables.append(globals()[part]())
        print(f"{tables[-1]}\n", flush=True)
    load = f"load average {os.getloadavg()[1]:.1f}"
    where = f"{machine()}, {os.cpu_count()} processors, {load}, {time.strftime('%Y-%m-%d')}, `{' '.join(sys.argv)}`"
    save("service", f"{where}\n\n" + "\n\n".join(tables))


if __name__ == "__main__":
    main()

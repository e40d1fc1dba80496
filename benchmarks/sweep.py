"""How fast sweeps are: on one and two workers, over Ray, with and without shared traces; and killed at random.

python benchmarks/sweep.py [--out=FOLDER] [--only=workers,ray,traces,kills]

Needs no GPU. Every part runs the same cases of a small training: GPUs of one generation by margins, which share a trace
unless the part says otherwise. `ray` needs `pip install 'memorymark[ray]'` and starts a cluster on this machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cases import flags, machine, save, table
from memorymark.history import Store
from memorymark.sweep.local import LocalEngine
from memorymark.sweep.plan import plan
from memorymark.sweep.reading import read_text
from memorymark.sweep.running import Progress, Sweeping

PARTS = ("workers", "ray", "traces", "kills")
SHARED = "model: bert\nsmall: true\nseq_len: 64\ngpu: [a10, l4, l40s, rtx3090]\n"
MARGINS, TOGETHER = 15, 5
FULL = "model: [bert, gpt2, vit-base]\ngpu: [a10, l4, l40s, rtx3090]\n"
KILLS = 10
CORES = 1000


def grid(count: int = MARGINS) -> str:
    return SHARED + f"margin: [{', '.join(str(number / 100) for number in range(count))}]\n"


class Meter:
    """Notes when answers come, and the CPU seconds spent by then: here, and in the workers that are known."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.moments: list[tuple[float, float, float]] = []

    def note(self, at: Progress) -> None:
        if at.latest is None:
            return
        if at.latest.has_failed:
            raise RuntimeError(at.latest.error)
        workers = sum(map(cpu_seconds, self._engine.processes.pids)) if isinstance(self._engine, LocalEngine) else 0.0
        self.moments.append((time.perf_counter(), time.process_time(), workers))

    @property
    def count(self) -> int:
        """The answers after the first, which waits for workers to start."""
        return len(self.moments) - 1

    def spent(self, what: int) -> float:
        """Seconds from the first answer to the last: of the clock (0), of the CPU here (1), and in the workers (2)."""
        return self.moments[-1][what] - self.moments[0][what]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(engine: Any, document: str, *, together: int = TOGETHER) -> Meter:
    """Runs a sweep with a history of its own."""
    meter = Meter(engine)
    cases = plan(read_text(document, "benchmark"), "benchmark", has_gpu=False)
    with tempfile.TemporaryDirectory() as folder, closing(Store(f"sqlite:///{folder}/history.db")) as store:
        Sweeping(cases, engine, store, on_progress=meter.note, together_at_most=together).run()
    return meter


def row(name: str, meter: Meter) -> list[Any]:
    seconds, count = meter.spent(0), meter.count
    cpu = [f"{1e3 * meter.spent(what) / count:.0f}" if meter.spent(what) else "" for what in (1, 2)]
    return [name, count, f"{seconds:.1f}", f"{60 * count / seconds:.0f}", *cpu]


def by_workers() -> list[list[Any]]:
    """Predictions a minute on this machine."""
    rows = [row(f"{workers} here", run(LocalEngine(workers=workers), grid())) for workers in (1, 2)]
    return [*rows, row("1 here, full models", run(LocalEngine(workers=1), FULL))]


@contextmanager
def cluster(nodes: int) -> Any:
    """A head and so many nodes with one CPU each."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, **small)
        yield made.address
    finally:
        ray.shutdown()
        made.shutdown()


def over_ray() -> tuple[list[list[Any]], float]:
    """The same over Ray, and what a case costs there that does nothing."""
    import ray

    from memorymark.sweep.on_ray import RayEngine

    rows: list[list[Any]] = []
    for nodes in (1, 2):
        with cluster(nodes) as address:
            rows.append(row(f"{nodes} on Ray", run(RayEngine(address), grid())))
            if nodes == 1:
                each = empty_case_seconds(ray)
    return rows, each


def empty_case_seconds(ray: Any, count: int = 2000) -> float:
    """CPU seconds here for one answer that costs nothing: a packed outcome, streamed and read."""
    from memorymark.sweep.on_ray import packed, unpacked
    from memorymark.sweep.work import Outcome

    content = packed(Outcome(1, 0.0, 0.0, {}, {"text": os.urandom(3000).hex()}))

    def many(times: int) -> Any:
        for _ in range(times):
            yield content

    stream = ray.remote(num_returns="streaming", max_retries=0)(many).remote(count)
    unpacked(ray.get(next(stream)))
    start = time.process_time()
    for ref in stream:
        unpacked(ray.get(ref))
    return (time.process_time() - start) / (count - 1)


def driver_seconds(count: int = 200) -> float:
    """CPU seconds of the process that runs the sweep to keep one answer: reading, history, and the row of the table."""
    from memorymark.sweep.work import Outcome, outcomes
    from memorymark.worker.supervisor import FreshWorkers

    cases = plan(read_text(SHARED, "benchmark"), "benchmark", has_gpu=False)
    (first, *_) = outcomes([(1, cases[0].question)], FreshWorkers(), time_limit_seconds=600)

    class Ready:
        measures_by_default, width = False, 1

        def __init__(self) -> None:
            self.left: list[Any] = []

        def require(self, _: Any) -> None: ...

        def submit(self, work: Any) -> None:
            self.left += [Outcome(case.number, 0.0, 0.0, {}, first.result) for case in work.cases]

        def next(self, _: float) -> list[Any]:
            told, self.left = self.left, []
            return told

        def close(self) -> None: ...

    document = SHARED + f"batch_size: {list(range(1, count // 4 + 1))}\n"
    cases = plan(read_text(document, "benchmark"), "benchmark", has_gpu=False)
    with tempfile.TemporaryDirectory() as folder, closing(Store(f"sqlite:///{folder}/history.db")) as store:
        start = time.process_time()
        Sweeping(cases, Ready(), store).run()
        return (time.process_time() - start) / len(cases)


def traces() -> list[list[Any]]:
    """Twelve cases with three traces, and twelve with twelve, of about the same size; none are kept on disk."""
    before, os.environ["MEMORYMARK_CACHE"] = os.environ.get("MEMORYMARK_CACHE"), "off"
    shared, own = [32, 54, 76], [32 + 4 * number for number in range(12)]
    rows = []
    for lengths, gpus in ((shared, "a10, l4, l40s, rtx3090"), (own, "a10")):
        document = f"model: bert\nsmall: true\nseq_len: {lengths}\ngpu: [{gpus}]\n"
        meter = run(LocalEngine(workers=1), document)
        cpu = (meter.spent(1) + meter.spent(2)) / meter.count
        rows.append([len(lengths), meter.count, f"{meter.spent(0):.1f}", f"{cpu:.2f}"])
    if before is not None:
        os.environ["MEMORYMARK_CACHE"] = before
    return rows


def kills() -> list[list[Any]]:
    """Kills a sweep at random moments, ten times, and lets an eleventh finish it."""
    chance = random.Random(26)
    with tempfile.TemporaryDirectory() as folder:
        file, url = Path(folder) / "sweep.yaml", f"sqlite:///{folder}/history.db"
        file.write_text(grid())
        command = [sys.executable, "-m", "memorymark", "sweep", str(file), "--quiet", "--workers", "2"]
        environment = {**os.environ, "MEMORYMARK_DATABASE": url}
        found = []
        for _ in range(KILLS):
            sweep = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
            known, least = answered(url), chance.randint(0, 4)
            while sweep.poll() is None and len(answered(url)) < len(known) + least:
                time.sleep(0.05)
            time.sleep(chance.random())
            sweep.send_signal(signal.SIGKILL)
            sweep.wait()
            found.append(len(answered(url)))
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        every = answered(url)
        twice = len(every) - len(set(every))
        return [[KILLS, ", ".join(map(str, found)), len(set(every)), twice]]


def answered(url: str) -> list[str]:
    """The keys of all answers in a history."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import OperationalError

    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT key FROM jobs WHERE state = 'done'")).scalars())
    except OperationalError:  # the first sweep has not made it yet
        return []
    finally:
        engine.dispose()


def estimate(small: list[Any], full: list[Any], ray_seconds: float, own_seconds: float) -> str:
    """Says what a thousand cores would do, and what they would wait for."""
    own = ray_seconds + own_seconds
    cores = [round((float(one[4]) + float(one[5])) / 1e3 / own) for one in (small, full)]
    rate = 60e3 / (float(full[4]) + float(full[5]))
    return (
        f"Over Ray, the process that runs the sweep spends {1e3 * ray_seconds:.1f} ms a case on Ray and "
        f"{1e3 * own_seconds:.1f} ms on the history and the table: it keeps up with {60 / own:,.0f} cases a minute. "
        f"That is {cores[0]:,} cores with the small training and {cores[1]:,} with the full models, of which "
        f"{CORES:,} cores could answer {CORES * rate:,.0f} a minute and would answer "
        f"{min(CORES * rate, 60 / own):,.0f}. On one machine, it also runs the searches, {small[4]} ms a case, "
        f"so that it keeps up with {(float(small[4]) + float(small[5])) / float(small[4]):,.0f} workers."
    )


def main() -> None:
    parts = flags().get("only", ",".join(PARTS)).split(",")
    load = f"{os.getloadavg()[0]:.0f} processes wanted to run at the start"
    shown = [f"{machine()}, {os.cpu_count()} cores; {load}"]
    header = ["workers", "cases", "seconds", "a minute", "CPU ms a case here", "and in workers"]
    rows: list[list[Any]] = []
    if {"workers", "ray"} & set(parts):
        rows += by_workers()
    if "ray" in parts:
        more, each = over_ray()
        rows += more
        shown.append(estimate(rows[0], rows[2], each, driver_seconds()))
    if rows:
        shown.insert(1, table(header, rows))
    if "traces" in parts:
        shown.append(table(["traces", "cases", "seconds", "CPU seconds a case"], traces()))
    if "kills" in parts:
        shown.append(table(["kills", "answers after each", "answers", "answered twice"], kills()))
    save("sweep", "\n\n".join(shown))


if __name__ == "__main__":
    main()

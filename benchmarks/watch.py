"""What `memorymark watch` reports of real scripts against the truth, and what watching costs. Needs a CUDA GPU.

python benchmarks/watch.py [--out=results.json] [--parts=stories,maxima,overhead] [--steps=1000] [--turn=25]
                           [--scripts=plain,trainer,lightning_loop] [--device=cpu]

Three scripts train a model of BERT's size: a plain loop, transformers' Trainer, Lightning. For each: the reported peak
beside torch's own; the estimated largest batch under a cap beside the largest that the script itself reaches, started
anew at each size; the time of steps with and without watching, in turns within one process. Also a script that starves
on its data, one that crashes, and one that is well tuned. A part that fails is reported as such, and the others go on.
All parts take about ten minutes. --device=cpu tries everything out on a small stand-in, without the maxima.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cases import CAP_GIB, flags, machine, table

FOLDER = Path(__file__).parent / "watched"
SCRIPTS = ("plain", "trainer", "lightning_loop")
# The true maximum is closed in on by so many sizes at the same time, so many times: to about 1 % in the end.
SIDE_BY_SIDE, ROUNDS = 5, 2
FAR = 0.2
RUN_SECONDS = 240


class Run:
    """One run of a script, watched or not. ``wait`` reads what it leaves and clears up."""

    def __init__(self, script: str, *options: object, watched: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp())
        own, report = self._folder / "own.json", self._folder / "report.json"
        watch = ["-m", "memorymark", "watch", "--save", str(report)] if watched else []
        command = [sys.executable, *watch, str(FOLDER / f"{script}.py"), *map(str, options)]
        command += ["--out", str(own), "--folder", str(self._folder / "output")]
        with (self._folder / "log").open("w") as log:
            # A session of its own: what runs too long is ended with all that it started.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
            )

    def wait(self) -> Run:
        try:
            self.code = self._process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self.code = self._process.wait()
        self.text = (self._folder / "log").read_text()
        self._left = {name: self._read(name) for name in ("own", "report")}
        shutil.rmtree(self._folder, ignore_errors=True)
        return self

    def facts(self) -> dict[str, Any]:
        """What the script wrote of itself."""
        return self._found("own")

    def document(self) -> dict[str, Any]:
        """What was reported."""
        return self._found("report")

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self._folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _found(self, name: str) -> dict[str, Any]:
        found = self._left[name]
        if found is None:
            raise RuntimeError(f"{name} is missing, exit code {self.code}: {self.text[-1500:]}")
        return found


def environment() -> dict[str, str]:
    source = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}


def on(device: str, *options: object) -> tuple[object, ...]:
    return ("--device", device, *options)


def peak_and_overhead(script: str, device: str, steps: int, turn: int) -> dict[str, Any]:
    """The reported peak beside torch's own, and in a second run the time of steps with and without watching."""
    options = on(device, "--bf16", "--batch-size", 32, "--workers", 4 if device == "cuda" else 0)
    run = Run(script, *options, "--steps", 60 if device == "cuda" else 12, watched=True).wait()
    document, true = run.document(), run.facts()
    memory = document["memory"]
    turns = Run(script, *options, "--steps", steps, "--turn", turn, watched=True).wait().facts()["turns"]
    return {
        "steps": [document["steps"], true["steps"]],
        "batch_size": document["batch_size"],
        "peak_allocated_bytes": [memory["peak_allocated_bytes"] if memory else 0, true["peak_allocated_bytes"]],
        "peak_reserved_bytes": [memory["peak_reserved_bytes"] if memory else 0, true["peak_reserved_bytes"]],
        **overhead(turns, turn),
        "headline": document["headline"],
        "breakdown": document["breakdown"],
        "busy": document["busy"],
        "power": document["power"],
        "lost": document["lost"],
        "problem": document["problem"],
    }


def overhead(turns: Sequence[float], turn: int) -> dict[str, Any]:
    """What watching costs: each watched turn against the mean of the unwatched ones before and after it."""
    costs = [
        watched / ((before + after) / 2) - 1
        for before, watched, after in zip(turns[::2], turns[1::2], turns[2::2], strict=False)
    ]
    low, middle, high = quantiles(costs, n=4)
    return {
        "overhead": middle,
        "overhead_quartiles": [low, high],
        "step_seconds": [median(turns[0::2]) / turn, median(turns[1::2]) / turn],
        "turns": turns,
    }


def maximum(script: str, device: str, *options: object) -> dict[str, Any]:
    """The estimate from a small batch under a cap, and the largest batch at which the script itself survives."""
    capped = on(device, "--cap-gib", CAP_GIB, *options)
    document = Run(script, *capped, "--batch-size", 16, "--steps", 12, watched=True).wait().document()
    if document["estimate"] is None:
        raise RuntimeError(f"no estimate: {document['problem']}")
    estimate = document["estimate"]["maximum"]

    def fits(sizes: Sequence[int]) -> dict[int, bool]:
        runs = {size: Run(script, *capped, "--batch-size", size, "--steps", 4, "--workers", 1) for size in sizes}
        for size, run in runs.items():
            if run.wait().code != 0 and "out of memory" not in run.text:
                raise RuntimeError(f"batch {size} failed for another reason: {run.text[-1000:]}")
        return {size: run.code == 0 for size, run in runs.items()}

    low, high = int(estimate * (1 - FAR)), int(estimate * (1 + FAR)) + 1
    tried = fits([low, high])
    if not tried[low] or tried[high]:
        raise RuntimeError(f"the estimate of {estimate} is off by more than {FAR:.0%}: {tried}")
    for _ in range(ROUNDS):
        step = (high - low) / (SIDE_BY_SIDE + 1)
        sizes = sorted({int(low + step * number) for number in range(1, SIDE_BY_SIDE + 1)} - {low, high})
        tried |= fits(sizes)
        low = max([low, *(size for size in sizes if tried[size])])
        high = min([high, *(size for size in sizes if not tried[size] and size > low)])
        if high - low <= 1:
            break
    return {
        "estimate": estimate,
        "recommended": document["estimate"]["recommended"],
        "true": low,
        "at_least": low,
        "less_than": high,
        "error": estimate / low - 1,
        "basis": document["estimate"]["basis"],
        "tried": {str(size): outcome for size, outcome in sorted(tried.items())},
    }


def starved(device: str) -> dict[str, Any]:
    run = Run("plain", *on(device, "--starve", "--steps", 15, "--batch-size", 16), watched=True).wait()
    document = run.document()
    return {
        "headline": document["headline"],
        "first": document["findings"][0]["kind"] if document["findings"] else None,
        "reason": document["findings"][0]["reason"] if document["findings"] else None,
        "right": bool(document["findings"]) and document["findings"][0]["kind"] == "data",
    }


def crashed(device: str) -> dict[str, Any]:
    run = Run("plain", *on(device, "--crash", "--steps", 15, "--workers", 0), watched=True).wait()
    document = run.document()
    ends = run.text.partition("ValueError: crashed on purpose")[0]
    return {
        "exit_code": run.code,
        "traceback_is_pythons": "Traceback (most recent call last):" in ends and "memorymark" not in ends,
        "steps": document["steps"],
        "right": run.code == 1 and document["steps"] == 15 and document["ending"]["kind"] == "ValueError",
    }


def tuned(device: str) -> dict[str, Any]:
    size = 1792 if device == "cuda" else 8
    options = ("--bf16", "--fused", "--batch-size", size, "--steps", 30, "--workers", 12 if device == "cuda" else 0)
    run = Run("plain", *on(device, *options), watched=True).wait()
    document = run.document()
    kept = ("headline", "findings", "lost", "busy", "power", "memory", "estimate", "samples_per_second")
    return {**{name: document[name] for name in kept}, "report": run.text[-4000:]}


def part(name: str, work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """A part's result, or what went wrong with it."""
    start = time.perf_counter()
    try:
        result = work(*arguments)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-2000:]}
    result["took_seconds"] = round(time.perf_counter() - start, 1)
    print(f"{name}: {json.dumps(result)[:600]}", flush=True)
    return result


def row(script: str, results: dict[str, Any]) -> list[object]:
    seen, most = results.get(f"{script}:seen", {}), results.get(f"{script}:maximum", {})
    reported, true = seen.get("peak_allocated_bytes", (0, 0))
    off = f"{100 * (reported / true - 1):+.2f} %" if true else ""
    largest = [
        most.get("estimate", ""),
        most.get("true", ""),
        f"{100 * most['error']:+.1f} %" if "error" in most else "",
    ]
    cost = f"{seen['overhead']:+.2%}" if "overhead" in seen else ""
    half = " to ".join(f"{limit:+.1%}" for limit in seen.get("overhead_quartiles", ()))
    return [script, f"{reported / 2**30:.2f}", f"{true / 2**30:.2f}", off, *largest, cost, half]


def main() -> None:
    given = flags()
    device = given.get("device", "cuda")
    turn = int(given.get("turn", 25 if device == "cuda" else 4))
    steps = max(int(given.get("steps", 1000 if device == "cuda" else 40)), 8 * turn)  # fewer turns say nothing
    scripts = given.get("scripts", ",".join(SCRIPTS)).split(",")
    results: dict[str, Any] = {}
    if "out" in given:
        Path(given["out"]).parent.mkdir(parents=True, exist_ok=True)

    def run(name: str, work: Callable[..., dict[str, Any]], *arguments: Any) -> None:
        results[name] = part(name, work, *arguments)
        if "out" in given:
            Path(given["out"]).write_text(json.dumps(results, indent=1))

    parts = given.get("parts", "stories,maxima,overhead").split(",")
    if "stories" in parts:
        run("starved", starved, device)
        run("crashed", crashed, device)
        run("tuned", tuned, device)
    if "maxima" in parts and device == "cuda":
        for script in scripts:
            run(f"{script}:maximum", maximum, script, device)
        run("plain:maximum:bf16", maximum, "plain", device, "--bf16")
    for script in scripts if "overhead" in parts else ():
        run(f"{script}:seen", peak_and_overhead, script, device, steps, turn)
    results["machine"] = machine()
    if "out" in given:
        Path(given["out"]).write_text(json.dumps(results, indent=1))
    columns = [
        "script",
        "peak GiB",
        "torch's",
        "off by",
        "max estimated",
        "true",
        "off by",
        "overhead",
        "half of the turns",
    ]
    print(results["machine"])
    print(table(columns, [row(script, results) for script in scripts]))


if __name__ == "__main__":
    main()

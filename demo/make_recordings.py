"""Makes demo/recordings: a prediction that is recorded now, and a measurement from what was kept of it.

python demo/make_recordings.py [predicted] [measured]
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from material.recorded_results import RECORDINGS, ROOT, recorded_on, section
from memorymark.catalog import find_gpu
from memorymark.catalog.models import find_model
from memorymark.events import StageStarted, TrialFinished
from memorymark.history import Store
from memorymark.history.recording import Moment, Recording
from memorymark.question.flat import make_question
from memorymark.results.trial import Trial
from memorymark.server.serve import running
from memorymark.server.settings import Settings
from memorymark.units import format_bytes

sys.path.insert(0, str(ROOT / "tests"))

from support.recorded_analyses import recorded

CAP_GIB = 21.7
NOTE = (
    "The trials, their order and their numbers are as measured. Their times were not kept: the pace is that of the "
    "same analysis on another day."
)


def record_prediction() -> Recording:
    """Asks a service for BERT on an A10, and records its answer."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/history.db"
        with running(Settings(port=0, database=url, prediction_workers=1)) as service:
            asked = service.jobs.submit(make_question({"model": "bert", "gpu": "a10"})).job
            service.jobs.wait(asked.id, 600)
        with closing(Store(url)) as store:
            return Recording.of(store.find(asked.id), store.events(asked.id))


def rebuild_measurement() -> Recording:
    """Puts together what is known of BERT's analysis on an H200: its trials, and how long its stages take."""
    data, analysis = recorded("bert_fp32")
    question = make_question({"model": "bert", "device": "cuda", "memory_gib": CAP_GIB})
    seconds = stage_seconds()
    info = replace(
        analysis.info,
        parameters=find_model("bert").parameters,
        sample="128 tokens",
        sample_sizes={"tokens": 128},
        weights_dtype="fp32",
        versions=data["versions"],
    )
    price = find_gpu("h200").price
    whole = replace(analysis, request=question.request, info=info, price=price, seconds=seconds)
    return Recording(
        recorded_at=recorded_on(),
        seconds=seconds["total"],
        note=NOTE,
        machine={
            "host": "",
            "system": "Linux",
            "python": "3.12.3",
            "processors": 16,
            "gpus": [info.device_name],
            "driver": "580.159.04",
        },
        versions={"memorymark": "0.1.0", **data["versions"]},
        question=question.to_dict(),
        moments=moments(whole.trials, seconds, info.capacity_bytes),
        result=whole.to_dict(),
    )


def stage_seconds() -> dict[str, float]:
    """Returns how long each stage of BERT's analysis in fp32 took, from the benchmarks."""
    rows = section("A whole analysis, and whether its advice holds").tables[0]
    row = next(row for row in rows if (row["model"], row["recipe"]) == ("BERT", "fp32"))
    stages = {name: float(row[f"{name} s"]) for name in ("import", "device", "build", "search", "throughput")}
    return {**stages, "total": sum(stages.values())}


def moments(trials: list[Trial], seconds: dict[str, float], capacity_bytes: int) -> list[Moment]:
    """Spreads the trials of each stage evenly over its time."""
    starts = seconds["import"] + seconds["device"] + seconds["build"]
    times = starts + seconds["search"]
    searched = [trial for trial in trials if trial.samples_per_second is None]
    timed = trials[len(searched) :]
    memory = (capacity_bytes, capacity_bytes, True)
    searching = f"searching for the largest batch within {format_bytes(capacity_bytes)}"
    happened = [
        (0.0, StageStarted("start", "starting a worker and building BERT base")),
        (starts, StageStarted("search", searching, *memory)),
        *((starts + at, TrialFinished("search", one)) for at, one in spread(searched, seconds["search"])),
        (times, StageStarted("throughput", "timing batch sizes")),
        *((times + at, TrialFinished("throughput", one)) for at, one in spread(timed, seconds["throughput"])),
    ]
    return [Moment(round(at, 3), (facts := event.to_dict()).pop("event"), facts) for at, event in happened]


def spread(trials: list[Trial], seconds: float) -> list[tuple[float, Trial]]:
    return [(seconds * number / len(trials), trial) for number, trial in enumerate(trials, start=1)]


MAKERS = {
    "predicted": ("bert-a10-predicted.json", record_prediction),
    "measured": ("bert-h200-measured.json", rebuild_measurement),
}


def main() -> None:
    for name in sys.argv[1:] or MAKERS:
        file, make = MAKERS[name]
        (RECORDINGS / file).write_text(json.dumps(make().to_dict(), indent=1) + "\n", encoding="utf-8")
        print(Path("demo/recordings") / file)


if __name__ == "__main__":
    main()

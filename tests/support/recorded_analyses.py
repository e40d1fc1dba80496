"""Analyses measured on a GPU, made again from their recorded trials."""

import json

import memorymark as mm
from memorymark.results.probe_info import ProbeInfo
from support.histories import DATA


def recorded(name):
    data = json.loads((DATA / f"h200_{name}.json").read_text())
    trials = [mm.Trial.from_dict(trial) for trial in data["trials"]]
    info = ProbeInfo(
        device_kind="cuda",
        device_name=data["gpu_name"],
        gpu_id="h200",
        total_bytes=150_109_880_320,
        capacity_bytes=data["capacity_bytes"],
        capped=True,
        parameters=0,
    )
    analysis = mm.Analysis(
        request=mm.Request(model=data["model_name"], recipe=mm.Recipe(**data["recipe"])),
        info=info,
        trials=trials,
        max_batch_size=data["max_batch_size"],
        current_batch_size=16,
        margin=data["margin"],
        usage=mm.Usage(),
        price=None,
    )
    return data, analysis

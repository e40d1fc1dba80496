"""What was recorded, as the figures and tables need it."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "tests" / "data"
GIB = 2**30


def read(name: str) -> Any:
    """A document of tests/data."""
    path = DATA / name
    if path.suffix == ".gz":
        return json.loads(gzip.decompress(path.read_bytes()))
    return json.loads(path.read_text(encoding="utf-8"))


def timed_trials(name: str) -> list[dict[str, Any]]:
    """The trials of a recorded analysis that were timed, by batch size."""
    trials = [trial for trial in read(name)["trials"] if trial["samples_per_second"]]
    return sorted(trials, key=lambda trial: trial["batch_size"])


@dataclass(frozen=True)
class Moment:
    """What tensors hold after a request or a free: what was there before the step, gradients, and the rest."""

    resting_bytes: int
    gradients_bytes: int
    other_bytes: int


@dataclass(frozen=True)
class Step:
    """One training step, moment by moment, and the moments at which its backward pass and its update begin."""

    moments: list[Moment]
    backward_at: int
    update_at: int


def recorded_step(model: str, recipe: str, batch_size: int) -> Step:
    """The last step at a batch size, from the first recorded history that has one."""
    history = next(one for one in read("h200_histories.json.gz") if (one["model"], one["recipe"]) == (model, recipe))
    marked = (index for index, action in enumerate(history["actions"]) if is_mark(action, batch_size))
    actions = history["actions"][: next(marked)]
    before, last = ends_of_steps(actions)[-2:]
    dropped = sorted(-1 - actions[index] for index in last)
    # AdamW updates all parameters at once: beside each gradient it makes a tensor of the same size, all dropped last.
    gradients, copies = dropped[: len(dropped) // 2], dropped[len(dropped) // 2 :]
    return replay(actions, before[-1] + 1, gradients, copies)


def is_mark(action: Any, batch_size: int) -> bool:
    return isinstance(action, list) and action[0] == "mark" and action[1]["batch"] == batch_size


def ends_of_steps(actions: list[Any]) -> list[list[int]]:
    """Where each step drops its gradients: the longest runs of frees without a request between them."""
    runs: list[list[int]] = [[]]
    for index, action in enumerate(actions):
        if isinstance(action, int) and action < 0:
            runs[-1].append(index)
        elif runs[-1]:
            runs.append([])
    longest = max(len(run) for run in runs)
    return [run for run in runs if len(run) == longest]


def replay(actions: list[Any], start: int, gradients: list[int], copies: list[int]) -> Step:
    """Follows all tensors from the first request on, and keeps the moments of the step."""
    sizes: list[int] = []
    held = {"resting": 0, "gradients": 0, "other": 0}
    kinds = dict.fromkeys(gradients, "gradients")
    moments: list[Moment] = []
    begins: dict[int, int] = {}
    for index, action in enumerate(actions):
        if isinstance(action, list):
            continue
        request = len(sizes) if action >= 0 else -1 - action
        if action >= 0:
            sizes.append(action)
            kinds.setdefault(request, "other" if index >= start else "resting")
            begins[request] = len(moments)
        held[kinds[request]] += sizes[request] if action >= 0 else -sizes[request]
        if index >= start:
            moments.append(Moment(held["resting"], held["gradients"], held["other"]))
    return Step(moments, begins[gradients[0]], begins[copies[0]])

"""``memorymark models``: the model catalog."""

from __future__ import annotations

from memorymark.catalog import all_models
from memorymark.commands import options as o
from memorymark.models.tasks import TASKS


def models(as_json: o.Json = False) -> None:
    """List the models known by name."""
    from memorymark.render.json import print_json
    from memorymark.render.models import print_models

    if as_json:
        tasks = [task.to_dict() for task in TASKS.values()]
        print_json({"models": [entry.to_dict() for entry in all_models()], "tasks": tasks})
    else:
        print_models(all_models())

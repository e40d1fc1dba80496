"""``memorymark models``: lists the model catalog."""

from __future__ import annotations

from memorymark.catalog import all_models
from memorymark.catalog.listings import model_catalog
from memorymark.cli import options as o


def models(as_json: o.Json = False) -> None:
    """List the models known by name."""
    from memorymark.render.json import print_json
    from memorymark.render.models import print_models

    if as_json:
        print_json(model_catalog().to_dict())
    else:
        print_models(all_models())

"""Grids made by hand, to look at what is said of them."""

from memorymark.catalog import Price
from memorymark.results.grid import Grid, GridCase


def case(number, speed=None, usd_per_hour=None, *, off=0.0, **facts):
    """A case with a speed and a price; ``off`` is how far its speed may be off."""
    about = {
        "options": {"model": "bert", "gpu": "a10"},
        "model_name": "BERT base",
        "recipe": f"recipe {number}",
        "sample": "128 tokens",
        "gpu": "a10",
        "gpu_name": "NVIDIA A10",
        "job": f"{number:012x}",
    }
    if speed is not None:
        about |= {
            "source": "predicted",
            "max_batch_size": 100 * number,
            "batch_size": 10 * number,
            "keeps_margin": True,
            "samples_per_second": speed,
            "samples_per_second_interval": (speed * (1 - off), speed * (1 + off)) if off else None,
            "price": Price(usd_per_hour, "somebody") if usd_per_hour else None,
        }
    return GridCase(number=number, **{**about, **facts})


def unanswered(number, code, error):
    return case(number, error=error, error_code=code)


def grid(*cases):
    return Grid(cases, 1.5)

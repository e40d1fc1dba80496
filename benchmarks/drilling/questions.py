"""Questions that take well under a second, none of which needs a network."""

from __future__ import annotations

import itertools
from typing import Any

TINY = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
SHAPE = {"gpu": "a10", "seq_len": 8, "max_batch": 2, "batch_size": 1}
# Keeps a lane busy until it is cancelled.
LONG = {"model_name": "gpt2", "all_gpus": True, "fresh": True}
_NUMBERS = itertools.count(1)


def tiny(name: str, **more: Any) -> dict[str, Any]:
    """A prediction of a model of a few kilobytes under a name; the same name is the same question."""
    return {"model_name": name, "config": TINY, **SHAPE, **more}


def new_name() -> str:
    """A name that no question had."""
    return f"drill-{next(_NUMBERS)}"

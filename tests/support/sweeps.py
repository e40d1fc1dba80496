"""Sweeps for tests: cases of a tiny training, a history of their own, and a Ray cluster on this machine."""

import json
from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from memorymark.sweep.plan import plan
from memorymark.sweep.reading import read_text

# GPUs of one generation, so that one trace serves all; little memory, so that a search is short.
SHARED = "model: bert\nsmall: true\nseq_len: 8\nmemory_gib: 0.05\nmax_batch: 32\ngpu: [a10, l4, l40s, rtx3090]\n"


def cases(document, *, has_gpu=False):
    return plan(read_text(document, "sweep.yaml"), "sweep.yaml", has_gpu=has_gpu)


def margins(count):
    """A line that makes so many cases of each."""
    return f"margin: [{', '.join(str(number / 100) for number in range(count))}]\n"


def finished(url):
    """How often each question was answered, by its key, as the history tells."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return Counter(connection.execute(text("SELECT key FROM jobs WHERE state = 'done'")).scalars())
    finally:
        engine.dispose()


def answers(url):
    """The answers in a history by key, without when and in how long they came."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT key, result FROM jobs WHERE state = 'done'")).all()
    finally:
        engine.dispose()
    return {row.key: without_times(json.loads(row.result)) for row in rows}


def without_times(document):
    if isinstance(document, dict):
        return {name: without_times(part) for name, part in document.items() if name != "seconds"}
    return [without_times(part) for part in document] if isinstance(document, list) else document


@contextmanager
def ray_cluster(*nodes):
    """A head without CPUs of its own and these nodes, each a raylet, as `ray start` starts them."""
    pytest.importorskip("ray", reason="Ray is not installed here")
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    try:
        yield cluster, [cluster.add_node(**{"num_cpus": 1, **small, **node}) for node in nodes]
    finally:
        import ray

        ray.shutdown()
        cluster.shutdown()

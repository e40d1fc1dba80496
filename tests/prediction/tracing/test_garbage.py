import gc

import pytest

from memorymark.prediction.tracing.garbage import NEVER, no_full_collections


def test_only_full_collections_are_put_off() -> None:
    before = gc.get_threshold()
    with no_full_collections():
        assert gc.get_threshold() == (*before[:2], NEVER)
    assert gc.get_threshold() == before


def test_a_failed_trace_restores_collections() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), no_full_collections():
        raise RuntimeError
    assert gc.get_threshold() == before

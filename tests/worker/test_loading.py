import gc
import weakref

import pytest

from memorymark.worker.loading import settle


class _Cycle:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _thawed():
    yield
    gc.unfreeze()


@pytest.mark.parametrize("anew", [True, False])
def test_garbage_is_found_before_the_rest_is_exempted(anew: bool) -> None:
    garbage = weakref.ref(_Cycle())
    settle(anew=anew)
    assert garbage() is None


def test_only_settling_anew_finds_garbage_among_what_was_exempted() -> None:
    model = _Cycle()
    gone = weakref.ref(model)
    settle(anew=False)
    del model
    settle(anew=False)
    assert gone() is not None
    settle(anew=True)
    assert gone() is None

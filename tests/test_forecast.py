import pytest

from histories import histories, last_steps, resting_segments
from memorymark.prediction.allocator import Segment
from memorymark.prediction.forecast import Recording, forecast_maximum
from memorymark.trace import Trace
from memorymark.units import GIB, MIB

CAP_BYTES = int(21.7 * GIB)
# What the search then measured on the same GPU under that cap; ResNet's edge moves with the scratch space of cuDNN.
TRUE_MAXIMA = {
    ("bert", "fp32"): (266, 0),
    ("bert", "bf16"): (410, 0),
    ("gpt2", "fp32"): (144, 0),
    ("resnet", "fp32"): (261, 1),
    ("resnet", "bf16"): (509, 2),
}
RECORDED_TWICE = [history for history in histories() if len(last_steps(history)) == 2]


@pytest.mark.parametrize("history", RECORDED_TWICE, ids=str)
def test_two_recorded_steps_forecast_the_true_maximum(history):
    smaller, larger = last_steps(history)
    maximum, blur = TRUE_MAXIMA[history.model, history.recipe]
    forecast = forecast_maximum(smaller, larger, resting_segments(history), CAP_BYTES)
    assert forecast is not None
    assert abs(forecast - maximum) <= blur


def test_small_steps_forecast_a_maximum_four_times_larger():
    history = next(h for h in RECORDED_TWICE if h.capacity_bytes is None)
    smaller, larger = last_steps(history)
    assert (smaller.batch_size, larger.batch_size) == (32, 64)
    assert forecast_maximum(smaller, larger, resting_segments(history), CAP_BYTES) == 266


def step(batch_size, *sizes):
    """A step that asks for blocks of these sizes, then frees them in reverse."""
    events = list(enumerate(sizes))
    return Recording(batch_size, Trace(events=events + [(key, -size) for key, size in reversed(events)]))


@pytest.mark.parametrize("capacity_mib", [100, 1000, 1001])
def test_one_growing_block_fills_what_the_weights_leave(capacity_mib):
    weights = Segment(address=0, small=False, blocks=((40 * MIB, True),))
    smaller, larger = step(2, 20 * MIB, 30 * MIB), step(4, 40 * MIB, 30 * MIB)
    forecast = forecast_maximum(smaller, larger, [weights], capacity_mib * MIB)
    assert forecast == (capacity_mib - 40 - 30) // 10


def test_steps_of_another_shape_give_no_forecast():
    assert forecast_maximum(step(2, 20 * MIB), step(4, 40 * MIB, 30 * MIB), [], GIB) is None


def test_weights_that_leave_no_room_forecast_nothing():
    weights = Segment(address=0, small=False, blocks=((40 * MIB, True),))
    assert forecast_maximum(step(2, 20 * MIB), step(4, 40 * MIB), [weights], 41 * MIB) == 0

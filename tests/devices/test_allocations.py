import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.devices.allocations import Trace, peak_breakdown
from memorymark.results.trial import Breakdown


def parts(breakdown):
    """The parts that are not zero, by their short names."""
    return {name.removesuffix("_bytes"): size for name, size in vars(breakdown).items() if size}


def test_at_a_peak_in_the_backward_pass_what_forward_left_alive_are_activations():
    forward = [("hidden", 50), ("scratch", 300), ("scratch", -300), ("logits", 7)]
    backward = [("grad", 1000), ("work", 90), ("work", -90), ("logits", -7), ("hidden", -50)]
    trace = Trace(
        before={"weight": 1000, "state": 2000},
        events=[*forward, *backward, ("grad", -1000)],
        marks=[("forward", 4), ("backward", 9), ("optimizer", 10)],
    )
    owners = {"weight": "weights", "state": "optimizer_state", "grad": "gradients"}

    assert parts(peak_breakdown(trace, owners, 4147)) == {
        "weights": 1000,
        "optimizer_state": 2000,
        "gradients": 1000,
        "activations": 57,
        "temporaries": 90,
    }


def test_at_a_peak_in_the_forward_pass_what_it_freed_and_what_it_found_without_an_owner_is_temporary():
    trace = Trace(
        before={"weight": 1000, "nobody's": 30},
        events=[("hidden", 50), ("scratch", 5000), ("scratch", -5000), ("hidden", -50), ("grad", 1000)],
        marks=[("forward", 3), ("backward", 5)],
    )
    owners = {"weight": "weights", "grad": "gradients"}

    assert parts(peak_breakdown(trace, owners, 6080)) == {
        "weights": 1000,
        "activations": 50,
        "temporaries": 5030,
    }


def test_an_activation_at_the_address_a_gradient_gets_later_is_still_an_activation():
    trace = Trace(
        events=[("A", 100), ("B", 60), ("A", -100), ("A", 40), ("B", -60)],
        marks=[("forward", 2), ("backward", 5)],
    )

    assert parts(peak_breakdown(trace, {"A": "gradients"}, 160)) == {"activations": 160}


def test_a_gradient_at_the_address_of_a_dead_activation_is_a_gradient():
    trace = Trace(
        events=[("A", 10), ("B", 60), ("A", -10), ("A", 100), ("B", -60)],
        marks=[("forward", 2), ("backward", 5)],
    )

    assert parts(peak_breakdown(trace, {"A": "gradients"}, 160)) == {"activations": 60, "gradients": 100}


def test_an_optimizer_temporary_at_the_address_of_a_dead_activation_is_temporary():
    trace = Trace(
        before={"weight": 1000},
        events=[("A", 10), ("grad", 1000), ("A", -10), ("A", 3000), ("A", -3000), ("grad", -1000)],
        marks=[("forward", 1), ("backward", 3), ("optimizer", 6)],
    )
    owners = {"weight": "weights", "grad": "gradients"}

    assert parts(peak_breakdown(trace, owners, 5000)) == {
        "weights": 1000,
        "gradients": 1000,
        "temporaries": 3000,
    }


def test_with_accumulation_later_forward_passes_keep_activations_beside_the_gradients():
    first = [("act", 50), ("grad", 100), ("act", -50), ("leftover", 5)]
    second = [("act", 70), ("act2", 8), ("late grad", 30), ("copy", 100), ("copy", -100), ("act", -70), ("act2", -8)]
    trace = Trace(
        events=[*first, *second],
        marks=[("forward", 1), ("backward", 4), ("forward", 6), ("backward", 11)],
    )

    assert parts(peak_breakdown(trace, {"grad": "gradients", "late grad": "gradients"}, 313)) == {
        "gradients": 130,
        "activations": 78,
        "temporaries": 105,
    }


def test_with_accumulation_the_peak_may_be_in_the_first_pass():
    trace = Trace(
        events=[("act", 500), ("grad", 100), ("act", -500), ("act", 50), ("act", -50)],
        marks=[("forward", 1), ("backward", 3), ("forward", 4), ("backward", 5)],
    )

    assert parts(peak_breakdown(trace, {"grad": "gradients"}, 600)) == {"gradients": 100, "activations": 500}


def test_bytes_that_only_the_allocator_counts_are_temporary():
    trace = Trace(before={"weight": 1000}, events=[("hidden", 50)], marks=[("forward", 1)])

    assert parts(peak_breakdown(trace, {"weight": "weights"}, 1536)) == {
        "weights": 1000,
        "activations": 50,
        "temporaries": 486,
    }


def test_a_peak_before_the_first_event_is_what_was_there():
    trace = Trace(before={"weight": 1000}, events=[("weight", -1000)])

    assert parts(peak_breakdown(trace, {}, 1000)) == {"temporaries": 1000}


@st.composite
def traces(draw):
    """A valid trace over few addresses, so that they are reused; and the peak of its allocated bytes."""
    addresses, sizes = st.integers(0, 7), st.integers(1, 1000)
    before = draw(st.dictionaries(addresses, sizes))
    alive, trace, peak = dict(before), Trace(before=before), sum(before.values())
    for address in draw(st.lists(addresses, max_size=40)):
        if address in alive:
            trace.events.append((address, -alive.pop(address)))
        else:
            alive[address] = draw(sizes)
            trace.events.append((address, alive[address]))
        peak = max(peak, sum(alive.values()))
    ends = sorted(draw(st.lists(st.integers(0, len(trace.events)), max_size=6)))
    trace.marks = list(zip(["forward", "backward"] * 3, ends, strict=False))
    return trace, peak


owners_of_addresses = st.dictionaries(st.integers(0, 7), st.sampled_from(["weights", "gradients", "optimizer_state"]))


@settings(deadline=None)
@given(traced=traces(), owners=owners_of_addresses, uncounted=st.integers(0, 512))
def test_the_parts_of_any_trace_are_not_negative_and_add_up_to_the_peak(traced, owners, uncounted):
    trace, peak = traced

    breakdown = peak_breakdown(trace, owners, peak + uncounted)

    assert breakdown.total_bytes == peak + uncounted
    assert breakdown.temporaries_bytes >= uncounted
    assert min(vars(breakdown).values()) >= 0


@settings(deadline=None)
@given(traced=traces(), owner=st.sampled_from(["weights", "gradients", "optimizer_state"]))
def test_what_lives_through_the_whole_step_counts_in_full_for_its_owner(traced, owner):
    trace, peak = traced
    freed = {address for address, size in trace.events if size < 0}
    lasting = {address: size for address, size in trace.before.items() if address not in freed}

    breakdown = peak_breakdown(trace, dict.fromkeys(lasting, owner), peak)

    assert getattr(breakdown, f"{owner}_bytes") == sum(lasting.values())


@settings(deadline=None)
@given(traced=traces())
def test_without_owners_and_marks_everything_is_temporary(traced):
    trace, peak = traced
    trace.marks = []

    assert peak_breakdown(trace, {}, peak) == Breakdown(temporaries_bytes=peak)


@pytest.mark.parametrize(("other_processes_bytes", "others", "context"), [(0, 0, 30), (10, 10, 20), (99, 30, 0)])
def test_what_the_device_holds_besides_tensors_is_slack_the_context_and_other_processes(
    other_processes_bytes, others, context
):
    tensors = Breakdown(weights_bytes=10, temporaries_bytes=5)

    whole = tensors.on_device(reserved_bytes=20, device_bytes=50, other_processes_bytes=other_processes_bytes)

    assert (whole.weights_bytes, whole.temporaries_bytes, whole.allocator_slack_bytes) == (10, 5, 5)
    assert (whole.other_processes_bytes, whole.context_bytes) == (others, context)
    assert whole.total_bytes == 50

"""Ctrl-C is heard even where Python drops it."""

import signal
from contextlib import suppress

import pytest

from memorymark.sweep.interrupts import heard_interrupts


@pytest.fixture
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_handler")
def test_an_interrupt_that_was_dropped_is_passed_on():
    with heard_interrupts() as interrupts:
        interrupts.pass_on()
        with suppress(KeyboardInterrupt):  # as Python does in a finalizer
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.pass_on()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("usual_handler")
def test_who_listens_already_goes_on_listening():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with heard_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        interrupts.pass_on()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

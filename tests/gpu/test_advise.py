"""Advice on a real GPU: what it promises is what a run gives."""

import pytest

import memorymark as mm
from memorymark.events import TrialFinished

pytestmark = pytest.mark.gpu


def test_the_best_way_was_run_and_beats_today():
    heard = []

    found = mm.advise("bert", batch_size=16, try_compile=False, on_event=heard.append)

    best = found.best
    assert (found.today.source, best.source) == ("measured", "measured")
    assert found.gain(best) > 1
    assert best.predicted is not None
    assert best.recipe.precision == "bf16"
    again = mm.measure("bert", best.batch_size, precision="bf16", fused=best.recipe.fused)
    assert again.peak_allocated_bytes == pytest.approx(best.measured.peak_allocated_bytes, rel=0.01)
    assert best.measured in [event.trial for event in heard if isinstance(event, TrialFinished)]


def test_a_well_tuned_training_is_told_that_nothing_is_worth_changing():
    tuned = mm.advise("bert", batch_size=512, precision="bf16", fused=True, try_compile=False)

    assert tuned.best is None
    assert tuned.verdict.startswith("Nothing is worth changing")


def test_what_does_not_fit_a_small_card_gets_a_change_that_runs():
    found = mm.advise("bert", batch_size=16, memory_gib=1.2, try_compile=False)

    assert not found.fits_today
    assert found.best.measured is not None
    assert found.best.measured.fits

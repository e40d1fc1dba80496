"""Throughput and whole runs, as people read them."""

from dataclasses import replace

import pytest

from memorymark.question.usage import Usage
from memorymark.render.csv import as_csv
from memorymark.render.html import page
from memorymark.render.notebook import as_text
from memorymark.render.rates import hours_words, run_words, speed_words
from memorymark.results.comparison import Comparison
from memorymark.results.cost import WholeRun
from memorymark.results.trial import Trial
from support.analyses import REQUEST, analysis

SPEEDS = {16: 0.5, 32: 0.75, 64: 0.75}


def of_text(found):
    """The same analysis with samples of 4,096 tokens."""
    return replace(found, trials=[replace(trial, tokens_per_sample=4096) for trial in found.trials])


IMAGES = replace(analysis("a10", SPEEDS, top=0.9), usage=Usage(samples=54_000))
TEXT = of_text(IMAGES)


@pytest.mark.parametrize("shown", [as_text, page])
def test_text_is_shown_in_tokens_and_other_samples_in_samples(shown):
    assert "3,072" in shown(TEXT)
    assert "tokens/s" in shown(TEXT)
    assert "tokens" not in shown(IMAGES)
    assert "0.750" in shown(IMAGES)


@pytest.mark.parametrize("shown", [as_text, page])
def test_the_whole_run_is_in_every_report(shown):
    assert "20.0 h" in shown(TEXT)
    assert "54,000 samples" in shown(TEXT)
    assert "20.0 h" in shown(Comparison(REQUEST, {"a10": TEXT}))


def test_a_table_for_programs_has_tokens_too():
    header, *rows = as_csv(TEXT).splitlines()

    assert "tokens_per_batch,tokens_per_second" in header
    assert any(",262144,3072.0," in row for row in rows)


def test_a_speed_is_given_in_both_units_if_it_is_text():
    trial = Trial(batch_size=1, fits=True, samples_per_second=0.1034, tokens_per_sample=4096)

    assert speed_words(trial) == "424 tokens/s, 0.103 samples/s"
    assert speed_words(replace(trial, tokens_per_sample=None)) == "0.103 samples/s"


@pytest.mark.parametrize(("hours", "said"), [(0.25, "15.0 min"), (5.2, "5.20 h"), (47.96, "48.0 h"), (60, "2.50 days")])
def test_hours_are_shown_in_a_unit_that_reads_well(hours, said):
    assert hours_words(hours) == said


def test_a_run_is_its_time_and_its_price():
    assert run_words(WholeRun(5.2, None, 10.4)) == "5.20 h, $10.40"
    assert run_words(WholeRun(5.2, (4.0, 6.76), None)) == "5.20 h (4.00 h to 6.76 h)"

"""What a run of so many samples or tokens takes and costs."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.catalog import Price
from memorymark.question.question import Question
from memorymark.question.usage import Usage
from memorymark.results.comparison import Comparison
from memorymark.results.cost import whole_run, with_hours_of_run
from memorymark.results.trial import Trial
from support.analyses import REQUEST, analysis

TEXT = Trial(batch_size=4, fits=True, samples_per_second=0.5, step_seconds=8.0, tokens_per_sample=2048)
IMAGES = replace(TEXT, tokens_per_sample=None)
PRICE = Price(3.0, "somebody")


def test_text_has_its_speed_in_tokens_too():
    assert (TEXT.tokens_per_batch, TEXT.tokens_per_second) == (8192, 1024.0)
    assert (IMAGES.tokens_per_batch, IMAGES.tokens_per_second) == (None, None)
    assert {"tokens_per_batch": 8192, "tokens_per_second": 1024.0}.items() <= TEXT.to_dict().items()


def test_a_trial_reads_back_with_its_tokens_and_without_if_it_is_older():
    document = TEXT.to_dict()
    older = {name: value for name, value in document.items() if "tokens" not in name}

    assert Trial.from_dict(document) == TEXT
    assert Trial.from_dict(older) == IMAGES


def test_a_run_takes_its_samples_by_the_speed_and_costs_its_hours():
    run = whole_run(Usage(samples=7200), IMAGES, PRICE)

    assert (run.hours, run.usd, run.hours_interval) == (4.0, 12.0, None)


def test_tokens_are_counted_in_samples_of_their_length():
    assert whole_run(Usage(tokens=7200 * 2048), TEXT, PRICE).hours == 4.0


def test_a_run_without_a_price_has_hours_only():
    assert whole_run(Usage(samples=7200), IMAGES, None).usd is None


@pytest.mark.parametrize(("usage", "trial"), [(Usage(), TEXT), (Usage(samples=1), None)])
def test_without_a_run_or_a_speed_there_is_nothing_to_say(usage, trial):
    assert whole_run(usage, trial, PRICE) is None


def test_a_predicted_run_has_an_interval_around_its_hours():
    trial = replace(TEXT, intervals={"samples_per_second": (0.25, 1.0)})

    assert whole_run(Usage(samples=7200), trial, PRICE).hours_interval == (2.0, 8.0)


def test_savings_are_those_of_the_run_itself():
    usage = with_hours_of_run(Usage(samples=7200), IMAGES)

    assert usage.hours_per_run == 4.0
    assert with_hours_of_run(Usage(hours_per_run=3.0), IMAGES).hours_per_run == 3.0


def test_an_analysis_gives_the_run_today_and_as_recommended():
    found = replace(analysis("a10", {16: 10.0, 32: 20.0, 64: 20.0}, top=0.9), usage=Usage(samples=720_000))

    document = found.to_dict()
    assert (document["whole_run_today"]["hours"], document["whole_run"]["hours"]) == (20.0, 10.0)
    assert document["whole_run"]["usd"] == pytest.approx(10 * found.price.usd_per_hour)


def test_the_cheapest_gpu_is_the_one_with_the_cheapest_run():
    speeds = {"a10": 20.0, "h100": 300.0, "l4": 14.0}
    found = {
        gpu: replace(analysis(gpu, {32: speed, 64: speed}, top=0.9), usage=Usage(samples=10**6))
        for gpu, speed in speeds.items()
    }
    contenders = [one for one in Comparison(REQUEST, found).contenders if one.whole_run]

    by_run, by_sample = (
        sorted(contenders, key=key) for key in (lambda c: c.whole_run.usd, lambda c: c.usd_per_million_samples)
    )
    assert len(contenders) == 3
    assert by_run == by_sample


@pytest.mark.parametrize(
    ("model", "usage", "said"),
    [
        ("bert", {"samples": 1, "tokens": 1}, "in samples= or in tokens=, not in both; drop one"),
        ("bert", {"samples": 1, "hours_per_run": 3.0}, "drop hours_per_run="),
        ("resnet", {"tokens": 1}, "tokens= is for text, and the samples of resnet are not text; give samples="),
    ],
)
def test_what_does_not_go_together_is_one_sentence(model, usage, said):
    with pytest.raises(mm.UsageError) as caught:
        Question(request=mm.Request(model=model), usage=Usage(**usage))

    assert said in str(caught.value)

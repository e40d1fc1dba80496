"""What is the fastest and the cheapest of a sweep, and what nobody should choose."""

import pytest

from memorymark.results.grid import answer_of
from support.grids import case, grid, unanswered
from support.recorded_analyses import recorded


def test_the_fastest_and_the_cheapest_are_named_where_intervals_allow():
    certain = grid(case(1, 100.0, 1.0), case(2, 300.0, 4.0), case(3, 200.0, 4.0)).groups[0]
    close = grid(case(1, 100.0, 1.0, off=0.3), case(2, 120.0, 1.15, off=0.3), case(3, 20.0, 9.0, off=0.3)).groups[0]

    assert (certain.fastest, certain.cheapest) == (2, 1)
    assert (close.fastest, close.cheapest) == (None, None)
    assert (close.fastest_candidate_numbers, close.cheapest_candidate_numbers) == ([2, 1], [2, 1])


def test_the_front_leaves_out_what_another_case_beats_in_both():
    #                    fast and dear         beaten by 1 and 4     slow and cheap       in between
    found = grid(case(1, 400.0, 8.0), case(2, 200.0, 8.0), case(3, 50.0, 0.5), case(4, 300.0, 4.0)).groups[0]

    assert found.front == [1, 4, 3]


def test_a_case_without_a_price_may_be_the_fastest_but_not_the_cheapest():
    found = grid(case(1, 400.0), case(2, 200.0, 2.0)).groups[0]

    assert (found.fastest, found.cheapest, found.front) == (1, 2, [2])


def test_only_the_same_model_and_samples_are_compared():
    groups = grid(case(1, 100.0), case(2, 300.0, sample="512 tokens"), case(3, 50.0, model_name="GPT-2")).groups

    assert [(one.model_name, one.sample, one.fastest) for one in groups] == [
        ("BERT base", "128 tokens", 1),
        ("BERT base", "512 tokens", 2),
        ("GPT-2", "128 tokens", 3),
    ]


def test_that_a_training_does_not_fit_is_an_answer_and_a_lost_worker_is_none():
    found = grid(case(1, 100.0), unanswered(2, "does_not_fit", "no."), unanswered(3, "worker_lost", "lost."))

    assert (found.answered, found.failed) == (2, 1)
    assert [one.case_numbers for one in found.groups] == [[1]]


def test_a_case_says_what_its_analysis_says():
    analysis = recorded("bert_fp32")[1]
    best = analysis.recommended
    told = case(1, **answer_of(analysis)).to_dict()

    assert (told["max_batch_size"], told["batch_size"]) == (analysis.max_batch_size, best.batch_size)
    assert told["samples_per_second"] == best.samples_per_second
    assert (told["price"], told["usd_per_million_samples"]) == (None, None)


def test_a_million_samples_cost_the_hours_that_they_take():
    told = case(1, 100.0, 3.6, off=0.5).to_dict()

    assert told["usd_per_million_samples"] == pytest.approx(10.0)
    assert told["usd_per_million_samples_interval"] == pytest.approx([10 / 1.5, 20.0])


def test_the_document_has_every_case_and_group():
    document = grid(case(1, 100.0, 1.0), unanswered(2, "does_not_fit", "no.")).to_dict()

    assert document["kind"] == "grid"
    assert [one["number"] for one in document["cases"]] == [1, 2]
    assert document["groups"][0]["front"] == [1]

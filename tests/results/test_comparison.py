import json
from dataclasses import replace

import pytest

from memorymark.catalog import all_gpus, find_gpu
from memorymark.question.target import Target
from memorymark.results.comparison import Comparison
from support.comparisons import REQUEST, analysis, comparison


def row(result, gpu):
    return next(row for row in result.to_dict()["gpus"] if row["gpu"] == gpu)


# By the hour, an H200 costs 4.59, an A10 1.29 and a T4 0.526 dollars; a B200 has no price.
FOUR = comparison(t4=50, h200=1000, a10=200, b200=2000)


def test_every_gpu_compared_is_there_the_fastest_first_and_what_does_not_fit_last():
    everyone = replace(FOUR, compared=tuple(gpu.id for gpu in all_gpus()))
    order = [contender.gpu.id for contender in everyone.contenders]

    assert order[:4] == ["b200", "h200", "a10", "t4"]
    assert sorted(order) == sorted(gpu.id for gpu in all_gpus())
    assert all(contender.analysis is None for contender in everyone.contenders[4:])


def test_a_million_samples_cost_the_hours_they_take():
    costs = {contender.gpu.id: contender.usd_per_million_samples for contender in FOUR.contenders}

    assert costs["h200"] == pytest.approx(4.59 * 1e6 / 1000 / 3600)
    assert costs["a10"] == pytest.approx(1.29 * 1e6 / 200 / 3600)
    assert costs["t4"] == pytest.approx(0.526 * 1e6 / 50 / 3600)


def test_the_fastest_and_the_cheapest_need_not_be_the_same():
    assert (FOUR.fastest.gpu.id, FOUR.cheapest.gpu.id) == ("b200", "h200")
    assert (FOUR.to_dict()["fastest"], FOUR.to_dict()["cheapest"]) == ("b200", "h200")


@pytest.mark.parametrize(("t4_speed", "cheapest"), [(114, "h200"), (115, "t4")])
def test_the_cheapest_is_the_one_with_the_least_for_a_sample_not_for_an_hour(t4_speed, cheapest):
    assert comparison(h200=1000, t4=t4_speed).cheapest.gpu.id == cheapest


def test_a_gpu_without_a_price_can_be_the_fastest_but_not_the_cheapest():
    alone = comparison(b200=2000)

    assert find_gpu("b200").price is None
    assert alone.fastest.gpu.id == "b200"
    assert alone.cheapest is None
    assert (row(alone, "b200")["price"], row(alone, "b200")["usd_per_million_samples"]) == (None, None)
    assert row(alone, "b200")["samples_per_second"] == 2000


def test_a_gpu_on_which_it_does_not_fit_has_no_numbers_but_its_price():
    assert row(FOUR, "l4") == {
        "gpu": "l4",
        "gpu_name": "NVIDIA L4",
        "fits": False,
        "max_batch_size": None,
        "max_batch_interval": None,
        "recommended_batch_size": None,
        "samples_per_second": None,
        "samples_per_second_interval": None,
        "step_seconds": None,
        "tokens_per_batch": None,
        "tokens_per_second": None,
        "whole_run": None,
        "usd_per_million_samples": None,
        "price": find_gpu("l4").price.to_dict(),
        "memory_only": False,
    }


def test_the_row_of_a_gpu_is_of_its_analysis():
    shown = row(FOUR, "a10")

    assert (shown["fits"], shown["max_batch_size"], shown["recommended_batch_size"]) == (True, 64, 32)
    assert shown["max_batch_interval"] == list(FOUR.analyses["a10"].max_batch_interval)
    assert shown["samples_per_second"] == 200


def test_where_no_batch_keeps_the_margin_it_fits_but_is_neither_fastest_nor_cheapest():
    tight = Comparison(REQUEST, {"a10": analysis("a10", 200), "h200": replace(analysis("h200", 1000), margin=0.99)})

    assert (tight.fastest.gpu.id, tight.cheapest.gpu.id) == ("a10", "a10")
    assert (row(tight, "h200")["fits"], row(tight, "h200")["max_batch_size"]) == (True, 64)
    assert row(tight, "h200")["recommended_batch_size"] is None


def test_what_fits_nowhere_has_neither_a_fastest_nor_a_cheapest():
    nowhere = comparison()

    assert nowhere.fastest is nowhere.cheapest is None
    assert (nowhere.to_dict()["fastest"], nowhere.to_dict()["cheapest"]) == (None, None)
    assert not any(row["fits"] for row in nowhere.to_dict()["gpus"])


def test_the_document_is_json_and_says_that_it_is_predicted():
    document = FOUR.to_dict()

    assert (document["source"], document["model_name"]) == ("predicted", "bert")
    assert document["recipe"] == REQUEST.recipe.to_dict()
    assert json.loads(json.dumps(document))["gpus"][0]["gpu"] == "b200"


def within(gpu, speed, low, high):
    """A prediction with what the true speed should lie between."""
    made = analysis(gpu, speed)
    about = {"samples_per_second": (low, high)}
    return replace(made, trials=[replace(t, intervals=about) if t.fits else t for t in made.trials])


def test_the_fastest_is_named_only_where_no_other_s_interval_reaches_its_own():
    apart = Comparison(REQUEST, {"a10": within("a10", 200, 150, 250), "t4": within("t4", 100, 80, 149)})
    overlapping = Comparison(REQUEST, {"a10": within("a10", 200, 150, 250), "t4": within("t4", 100, 80, 150)})

    assert apart.fastest.gpu.id == "a10"
    assert apart.to_dict()["fastest_candidates"] == ["a10"]
    assert overlapping.fastest is None
    assert (overlapping.to_dict()["fastest"], overlapping.to_dict()["fastest_candidates"]) == (None, ["a10", "t4"])


def test_the_cheapest_is_named_only_where_no_other_s_interval_reaches_its_own():
    # For a million samples at 1.29 dollars an hour: 1.79 dollars at 200 a second; at 0.526: 1.46 at 100 a second.
    apart = Comparison(REQUEST, {"a10": within("a10", 200, 190, 210), "t4": within("t4", 100, 95, 105)})
    overlapping = Comparison(REQUEST, {"a10": within("a10", 200, 100, 300), "t4": within("t4", 100, 80, 120)})

    assert (apart.cheapest.gpu.id, apart.to_dict()["cheapest_candidates"]) == ("t4", ["t4"])
    assert (overlapping.to_dict()["cheapest"], overlapping.to_dict()["cheapest_candidates"]) == (None, ["t4", "a10"])


def test_a_third_that_is_less_certain_may_win_as_well():
    three = {"a10": within("a10", 200, 190, 210), "l4": within("l4", 150, 140, 160), "t4": within("t4", 90, 10, 500)}

    assert Comparison(REQUEST, three).to_dict()["fastest_candidates"] == ["a10", "t4"]


def test_gpus_without_a_price_are_out_of_the_contest_for_the_cheapest_and_listed():
    assert FOUR.to_dict()["unpriced"] == ["b200"]
    assert "b200" not in FOUR.to_dict()["cheapest_candidates"]


def test_the_interval_of_a_speed_is_in_the_document():
    result = Comparison(REQUEST, {"a10": within("a10", 200, 150, 250)})

    assert row(result, "a10")["samples_per_second_interval"] == [150, 250]


def test_a_comparison_of_some_gpus_has_only_these():
    some = replace(FOUR, compared=("t4", "h200", "l4"))

    assert [row["gpu"] for row in some.to_dict()["gpus"]] == ["h200", "t4", "l4"]
    assert some.to_dict()["compared"] == ["t4", "h200", "l4"]


def test_the_callers_own_prices_are_in_every_cost():
    own = replace(FOUR, own_prices={"b200": 2.0, "h200": 9.0})

    assert row(own, "b200")["usd_per_million_samples"] == pytest.approx(2.0 * 1e6 / 2000 / 3600)
    assert row(own, "b200")["price"] == {"usd_per_hour": 2.0, "provider": "as given", "as_of": None, "note": ""}
    assert (own.to_dict()["cheapest"], own.to_dict()["unpriced"]) == ("b200", [])
    assert row(own, "a10") == row(FOUR, "a10")


def test_an_own_gpu_is_compared_like_those_of_the_catalog():
    own = {"name": "Lab GPU", "memory_mib": 24576, "compute_capability": "8.6", "multiprocessors": 82,
           "boost_clock_mhz": 1700, "bandwidth_gb_per_second": 900, "usd_per_hour": 0.5}  # fmt: skip
    request = replace(REQUEST, target=Target(gpu_facts=own))
    with_own = Comparison(request, {"labgpu": analysis("a10", 500), "a10": analysis("a10", 200)}, ("labgpu", "a10"))

    read = Comparison.from_dict(json.loads(json.dumps(with_own.to_dict())))
    assert [(one.gpu.name, one.price.usd_per_hour) for one in read.contenders] == [
        ("Lab GPU", 0.5),
        ("NVIDIA A10", 1.29),
    ]

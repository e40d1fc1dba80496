"""What reports say of odd results: nothing that contradicts itself, and nothing that helps nobody."""

import re
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch import nn

import memorymark as mm
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.render.comparison_words import about_contest, comparison_notes
from memorymark.render.html import fragment
from memorymark.render.terminal import print_result, print_trial
from memorymark.render.words import (
    about_maximum,
    about_recommended,
    about_waste,
    heading,
    prediction_notes,
    training_notes,
)
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.training.building import weights_dtype
from support.analyses import REQUEST, analysis

UNKNOWN = ("aten.sort.default",)
ODD = {
    "nothing larger fits": analysis("a10", {1: 0.4}, today=1, base=0.8, top=0.849),
    "the maximum is below today's": analysis("a10", {8: 80.0, 4: 79.0, 2: 60.0}, today=16),
    "one sample, and less than today's": analysis("a10", {1: 0.4}, base=0.8, top=0.9),
    "today's is the one to use": analysis("a10", {100: 80.0, 64: 79.9, 16: 50.0}, today=64),
    "less than today's is enough": analysis("a10", {100: 80.0, 64: 79.9, 16: 79.5}, today=64, top=0.9),
    "today's keeps no margin": analysis("a10", {100: 80.0, 98: 79.9, 64: 75.0}, today=98),
    "the caller's limit": analysis("a10", {16: 80.0, 8: 50.0}, limited_by="caller", top=0.5),
    "less than today's by the caller's limit": analysis("a10", {8: 80.0, 4: 50.0}, limited_by="caller", top=0.5),
    "a launch limit": analysis("a10", {16: 80.0, 8: 50.0}, limited_by="limit", top=0.5),
    "no margin": analysis("a10", {2: 8.0, 1: 5.0}, today=2, base=0.97, top=0.99),
    "uncertain on an H200": analysis("h200", {100: 800.0, 64: 790.0, 16: 500.0}, unknown=UNKNOWN),
    "uncertain elsewhere": analysis("a10", {100: 80.0, 64: 79.0, 16: 50.0}, unknown=UNKNOWN),
    "measured": analysis("h200", {100: 80.0, 64: 79.0, 16: 50.0}, source="measured"),
}
NONSENSE = (
    r"between 0 and",
    r"[±] (6\d|[789]\d|\d{3,}) %",  # so wide that it says nothing
    r"speed by (6\d|[789]\d|\d{3,}) %",
    r"H200 by less",
    r"aten|\.default|\.Tensor",
    r"(?<![\d.])0(\.0)? samples/s",
    r"\b1x today's|\b0\.\d+x today's",
    r"\b0 % slower|-\d+ % slower",
)


def shown(result):
    console = Console(width=160, highlight=False)
    with console.capture() as printed:
        print_result(result, console)
    return " ".join(printed.get().split())


@pytest.mark.parametrize("result", ODD.values(), ids=ODD)
def test_no_odd_result_is_told_in_words_that_help_nobody(result):
    report, page = shown(result), fragment(result)

    for nonsense in NONSENSE:
        assert not re.search(nonsense, report)
        assert not re.search(nonsense, page)


@pytest.mark.parametrize("result", ODD.values(), ids=ODD)
def test_memory_is_wasted_only_where_a_larger_batch_could_use_it(result):
    could_use_it = result.current_batch_size < result.max_batch_size

    assert ("wasted" in shown(result)) == could_use_it
    assert ("wasted" in fragment(result)) == could_use_it


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing larger fits", r"^\d+\.\d % unused: a batch of 2 does not fit$"),
        ("the caller's limit", r"^\d+\.\d % unused: --max-batch allows no larger batch$"),
        ("a launch limit", r"^\d+\.\d % unused: a batch of 17 exceeds a launch limit$"),
        ("today's is the one to use", r"^\d+\.\d % wasted$"),
    ],
)
def test_memory_that_no_batch_can_use_is_called_unused_with_the_reason(name, said):
    assert re.search(said, about_waste(ODD[name]))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing larger fits", "2 runs out of memory; the batch you use today; at most 2, and perhaps not even 1"),
        ("the maximum is below today's", "9 runs out of memory; less than today's 16; between 7 and 9"),
        ("less than today's by the caller's limit", "as far as --max-batch allowed; less than today's 16"),
        ("measured", "101 runs out of memory; 6.25x today's batch"),
    ],
)
def test_a_maximum_is_told_beside_today_s_batch_and_with_what_is_certain(name, said):
    assert about_maximum(ODD[name]) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "today's is the one to use",
            "79.9 samples/s (56.3 to 113), the batch you use today: a larger one is no faster",
        ),
        ("nothing larger fits", "0.400 samples/s (0.282 to 0.568), the batch you use today"),
        ("less than today's is enough", "79.5 samples/s (56.0 to 113), as fast as today's 64"),
        ("today's keeps no margin", "75.0 samples/s (52.9 to 106), 6 % slower than today's 98"),
        (
            "the maximum is below today's",
            "79.0 samples/s (55.7 to 112), nothing to compare with: today's batch of 16 does not fit",
        ),
        ("no margin", "no size keeps a margin of 5 %"),
        ("uncertain elsewhere", "79.0 samples/s (39.2 to 159), 1.58x (0.54 to 3.47) faster than today, predicted"),
    ],
)
def test_a_recommendation_is_told_beside_today_s_batch(name, said):
    assert about_recommended(ODD[name]) == said


def test_on_the_gpu_where_predictions_were_checked_no_other_is_spoken_of():
    said, uncertain = prediction_notes(ODD["uncertain on an H200"].info)

    assert "H200" not in said
    assert "the true speed may be 0.6 to 1.6 times what is predicted" in said
    assert "Measure on the GPU" in uncertain


def test_a_trial_that_may_take_any_time_has_both_ends_of_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = ODD["uncertain elsewhere"]

    print_trial(result.request, result.info, result.maximum)

    assert "1,250 ms (621 to 2,517 ms)" in capsys.readouterr().out


def contest(**speeds):
    return Comparison(REQUEST, {gpu: analysis(gpu, {64: speed, 32: speed}) for gpu, speed in speeds.items()})


def test_who_is_fastest_and_cheapest_is_left_open_where_the_uncertainty_leaves_it_open():
    assert about_contest(contest(a10=100.0, l4=60.0, t4=1.0)) == [
        "Fastest: A10 or L4, within the uncertainty.",
        "Cheapest: L4 or A10, within the uncertainty.",
    ]
    assert about_contest(contest(a10=100.0, t4=1.0)) == ["Fastest: A10.", "Cheapest: A10."]


def test_gpus_without_a_price_are_said_to_be_out_of_the_contest():
    said = about_contest(contest(b200=1000.0, a10=1.0))

    assert said == [
        "Fastest: B200.",
        "Cheapest: A10.",
        "No price is known for B200; not considered for cheapest: give --prices.",
    ]


def test_of_many_candidates_the_first_few_are_named():
    many = contest(a10=100.0, a10g=99.0, l4=98.0, l40s=97.0, t4=96.0, h200=95.0)

    assert about_contest(many)[0] == "Fastest: A10, A10G, L4, L40S or one of 2 others, within the uncertainty."


def test_rates_of_a_comparison_have_three_digits():
    report = shown(contest(h200=1.234, t4=0.0456))

    assert " 1.23 " in report
    assert " 0.0456 " in report


def test_a_gpu_on_which_no_batch_keeps_the_margin_has_no_speed():
    tight = Comparison(REQUEST, {"t4": analysis("t4", {8: 5.0}, base=0.97, top=0.99)})

    assert "T4 8 none $0.53/h" in shown(tight)
    assert "the column use says none if no batch keeps a margin of 5 %." in comparison_notes(tight)


def test_of_a_gpu_with_memory_only_nothing_is_said_of_speed_or_margins(tmp_path):
    plain = analysis("a10", {16: 80.0, 8: 50.0}, limited_by="caller", top=0.5)
    info = replace(plain.info, gpu_id="mi300x", device_name="AMD Instinct MI300X", memory_only=True)
    trials = [replace(one, samples_per_second=None, step_seconds=None) for one in plain.trials]
    amd = replace(plain, info=info, trials=trials, price=None)

    said = " ".join(prediction_notes(amd.info))
    assert about_recommended(amd) == "only memory is predicted for this GPU"
    assert "Only memory is predicted, not speed or cost, for the AMD Instinct MI300X" in said
    assert "true speed" not in said


def test_a_comparison_speaks_of_all_gpus_and_not_of_one():
    note = next(note for note in comparison_notes(contest(a10=1.0, h200=2.0)) if note.startswith("Predicted"))

    assert "and less on an H200" in note
    assert "A10" not in note


def test_a_length_that_loses_next_to_nothing_is_as_fast():
    short = analysis("a10", {100: 80.0, 64: 79.9, 16: 79.7})
    sweep = Sweep(REQUEST, (128, 512), {128: short, 512: analysis("a10", {20: 8.0, 16: 7.99})})

    report = shown(sweep)

    assert "as fast" in report
    assert "0 % slower" not in report
    assert "loses" not in report


def tiny(dtype):
    return mm.Workload(
        build=lambda: nn.Linear(8, 8).to(dtype),
        batch=lambda size, device: torch.ones(size, 8, dtype=dtype, device=device),
        loss=lambda model, batch: model(batch).sum(),
        name="own",
    )


def test_the_heading_names_the_type_that_the_weights_really_have():
    step = trace_training(tiny(torch.bfloat16), mm.Recipe(), (8, 6))
    info = analysis("a10", {2: 1.0}, weights_dtype=step.facts.weights_dtype).info

    assert "bf16 weights, AdamW" in heading(REQUEST, info, "predicted")[1]
    assert "fp32" not in heading(REQUEST, info, "predicted")[1]


@pytest.mark.parametrize(
    ("recipe", "dtype", "said"),
    [
        ({}, "fp32", "fp32, AdamW"),
        ({"precision": "bf16"}, "fp32", "bf16, AdamW"),
        ({"precision": "bf16"}, "bf16", "bf16 weights, AdamW"),
        ({"precision": "fp16"}, "bf16", "bf16 weights, fp16 autocast, AdamW"),
        ({"precision": "bf16", "lora": 8}, "bf16", "bf16, AdamW, LoRA rank 8"),
        ({}, "", "fp32, AdamW"),
    ],
)
def test_a_recipe_is_told_with_the_type_of_the_weights(recipe, dtype, said):
    assert mm.Recipe(**recipe).describe(weights_dtype=dtype) == said


def test_the_type_of_the_weights_is_that_of_most_of_them():
    mixed = nn.Sequential(nn.Linear(64, 64).to(torch.bfloat16), nn.LayerNorm(64))

    assert weights_dtype(mixed) == "bf16"
    assert weights_dtype(nn.Linear(2, 2, dtype=torch.float64)) == "fp64"
    assert weights_dtype(nn.ReLU()) == ""


@pytest.mark.parametrize(
    ("facts", "recipe", "said"),
    [
        ({"routing_matters": True}, mm.Recipe(), "assumed to be spread evenly over the experts"),
        ({"experts": 8, "source": "predicted"}, mm.Recipe(), "Tokens go to 8 experts: the memory is the same"),
        (
            {"experts": 8, "experts_dtype": "fp32"},
            mm.Recipe(weights="nf4", lora=8),
            "The experts are not quantized but in fp32",
        ),
    ],
)
def test_a_mixture_is_told_with_what_its_numbers_assume(facts, recipe, said):
    info = replace(analysis("a10", {16: 80.0}).info, source="measured")

    assert said in " ".join(training_notes(replace(info, **facts), recipe))
    assert not training_notes(info, mm.Recipe())

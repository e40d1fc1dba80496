"""The ways to fine-tune a language model: the least change of each that fits, its batch and its longest sequence."""

import json

import pytest

import memorymark as mm
from memorymark.advice.inquiry import Inquiry
from memorymark.advice.longest import longest_that_fits, rounded
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.results.result import result_from_dict
from memorymark.units import GIB
from support.simulated_gpu import Machine, ask

MODEL, TOKENS = "llama-3.1-8b", 1024
BILLIONS = 8_000_000_000


def fixed(request):
    return request.recipe.least_bytes(BILLIONS) + GIB


def sample(request):
    """Activations of 8 GiB for 1024 tokens, of which checkpointing leaves an eighth, and logits of 2 GiB."""
    recipe, part = request.recipe, (request.seq_len or TOKENS) / TOKENS
    activations = 1 if recipe.gradient_checkpointing == "full" else 8
    return int(part * (activations + (0 if recipe.loss == "chunked" else 2)) * GIB)


def speed(request, batch_size):
    recipe = request.recipe
    slower = (1.3 if recipe.gradient_checkpointing == "full" else 1) * (1.04 if recipe.loss == "chunked" else 1)
    return 10.0 / slower


def gpu(gib, **fields):
    of_model = {"tokens": TOKENS, "parameters": BILLIONS, "language_model": True, "vocabulary": 500_000}
    formulas = {"fixed_bytes": fixed, "sample_bytes": sample, "speed": speed}
    return Machine(**{**of_model, **formulas, "longest": 2**20, **fields}, capacity_bytes=gib * GIB)


def advised(machine, batch_size=1, recipe=None):
    recipe = recipe or Recipe(precision="bf16")
    return ask(machine, model=MODEL, gpu="h200", batch_size=batch_size, recipe=recipe)


def request_of(option, seq_len=None):
    return mm.Request(model=MODEL, recipe=option.recipe, target=mm.Target(gpu="h200"), seq_len=seq_len)


def changes(found):
    return {family.id: family.option.changes if family.option else None for family in found.families}


def test_each_family_gets_its_least_change():
    found = advised(gpu(80))

    assert changes(found) == {
        "full": ("bf16_weights", "fused"),
        "lora": ("lora",),
        "qlora": ("lora", "nf4"),
    }
    assert [one.changes for one in found.ranked] == [("bf16_weights", "fused"), ("lora",), ("lora", "nf4")]
    assert found.only_families


@pytest.mark.parametrize("gib", [12, 24, 80])
def test_families_looked_through_side_by_side_are_those_found_one_after_the_other(gib):
    one_after_the_other, side_by_side = (advised(gpu(gib, lanes=lanes)) for lanes in (1, 2))

    assert side_by_side.families == one_after_the_other.families
    assert side_by_side.options == one_after_the_other.options
    assert side_by_side.refused == one_after_the_other.refused


def test_what_costs_less_speed_is_tried_first_and_more_only_where_it_must_be():
    by_memory = {gib: changes(advised(gpu(gib))) for gib in (12, 24, 27, 48)}

    assert by_memory[48]["full"] == ("bf16_weights", "adamw8bit", "in_backward")
    assert by_memory[27]["lora"] == ("lora", "chunked")
    assert by_memory[24]["full"] == ("bf16_weights", "paged_adamw8bit", "in_backward", "checkpointing")
    assert by_memory[24]["lora"] == ("lora", "checkpointing")
    assert (by_memory[12]["full"], by_memory[12]["lora"]) == (None, None)


def test_activations_go_to_the_host_where_recomputing_them_is_not_enough():
    def held(request):
        return int(GIB / 2) if request.recipe.offload == "activations" else 20 * sample(request)

    def copies_are_slow(request, batch_size):
        return speed(request, batch_size) / (1.1 if request.recipe.offload == "activations" else 1)

    found = advised(gpu(24, sample_bytes=held, speed=copies_are_slow, host_bytes=6 * GIB))

    lora = next(family.option for family in found.families if family.id == "lora")
    assert lora.changes == ("lora", "chunked", "checkpointing", "offload_activations")
    assert lora.change_costs[-1].host_bytes == 6 * GIB
    assert lora.change_costs[-1].slower == pytest.approx(0.1)
    assert lora.costs[-1][1].endswith("Here it takes 6.00 GiB of the host's memory and makes steps 10 % slower.")
    assert all(cost.host_bytes is None for cost in lora.change_costs[:-1])


def test_the_optimizer_goes_to_the_host_where_no_other_takes_less_and_says_what_that_costs():
    def updates_are_slow(request, batch_size):
        return speed(request, batch_size) / (3 if request.recipe.offload == "optimizer" else 1)

    machine = gpu(24, speed=updates_are_slow, host_bytes=96 * GIB)
    found = advised(machine, recipe=Recipe(precision="bf16", optimizer="sgd"))

    full = next(family.option for family in found.families if family.id == "full")
    assert full.changes == ("bf16_weights", "offload_optimizer", "checkpointing")
    assert full.slower["offload_optimizer"] == pytest.approx(2)
    assert full.change_costs[1].host_bytes == 96 * GIB


def test_a_recipe_whose_weights_do_not_fit_is_not_traced():
    machine = gpu(24)
    advised(machine)

    asked = {request.recipe for request in machine.opened[1:]}
    assert asked
    assert all(recipe.least_bytes(BILLIONS) <= 24 * GIB for recipe in asked)


def test_a_chunked_loss_is_not_traced_where_the_logits_are_less_than_what_is_missing():
    machine = gpu(24, sample_bytes=lambda request: 2 * sample(request))
    found = advised(machine)

    traced = {(request.recipe.loss, request.recipe.gradient_checkpointing) for request in machine.opened[1:]}
    assert ("model", "none") in traced
    assert ("chunked", "none") not in traced
    assert {one.why for one in found.refused if one.changes == ("lora", "chunked")} == {"does not fit even at batch 1."}


def test_gradients_are_accumulated_only_with_the_change_that_is_chosen():
    machine = gpu(
        27, speed=lambda request, size: speed(request, size) / (1.5 if request.recipe.loss == "chunked" else 1)
    )
    lora = next(family.option for family in advised(machine, batch_size=16).families if family.id == "lora")

    assert lora.changes == ("lora", "checkpointing")
    assert lora.effective_batch_size == 16
    assert lora.slower["checkpointing"] == pytest.approx(0.3)
    of_lora = [one.recipe for one in machine.opened if one.recipe.lora and one.recipe.weights == "auto"]
    assert {one.loss for one in of_lora} == {"model", "chunked"}
    assert {one.loss for one in of_lora if one.accumulation_steps > 1} == {"model"}


def test_a_family_that_does_not_fit_says_why():
    found = advised(gpu(12))

    assert [family.why_not for family in found.families][:2] == [
        "does not fit: weights, gradients and optimizer state alone take 14.90 GiB.",
        "does not fit: the frozen weights alone take 14.90 GiB.",
    ]
    assert found.best.recipe.weights == "nf4"


def test_what_is_slower_says_by_how_much_and_gives_way_to_what_is_less_so():
    def chunks_are_slow(request, batch_size):
        return speed(request, batch_size) / (1.5 if request.recipe.loss == "chunked" else 1)

    lora = next(family.option for family in advised(gpu(27)).families if family.id == "lora")
    other = next(family.option for family in advised(gpu(27, speed=chunks_are_slow)).families if family.id == "lora")

    assert lora.slower["chunked"] == pytest.approx(0.04)
    assert lora.costs[-1][1].endswith("Here it makes steps 4 % slower.")
    assert other.changes == ("lora", "checkpointing")


def test_everything_advised_was_tried_and_leaves_the_margin():
    machine = gpu(30)
    found = advised(machine, batch_size=4)

    for family in (one for one in found.families if one.option):
        option = family.option
        assert option.trial.peak_reserved_bytes <= 0.95 * 30 * GIB
        request = request_of(option, family.longest_seq_len)
        with machine.open(request, predict_without_gpu=True) as probe:
            assert probe.measure(1).peak_reserved_bytes <= 0.95 * 30 * GIB
            assert family.longest_seq_len >= TOKENS


def test_samples_that_are_too_long_for_a_family_are_cut():
    machine = gpu(24, sample_bytes=lambda request: 10 * sample(request))

    found = advised(machine)

    lora = next(family for family in found.families if family.id == "lora")
    assert lora.option.changes[-1] == "shorter"
    assert 64 <= lora.option.seq_len == lora.longest_seq_len < TOKENS


def test_where_today_fits_its_family_needs_no_change():
    found = advised(gpu(200))

    assert changes(found)["full"] == ("batch",)
    assert changes(found)["qlora"] == ("lora", "nf4")
    assert found.fits_today


def test_adapters_of_today_are_not_taken_away():
    assert list(changes(advised(gpu(80), recipe=Recipe(lora=64)))) == ["lora", "qlora"]
    assert list(changes(advised(gpu(80), recipe=Recipe(lora=64, weights="nf4")))) == ["qlora"]


def test_other_models_have_no_such_families():
    assert advised(gpu(200, language_model=False)).families == ()


def test_the_families_are_part_of_the_document_and_are_read_back():
    found = advised(gpu(24))
    document = json.loads(json.dumps(found.to_dict()))

    first = document["families"][0]
    assert (first["id"], first["longest_seq_len"]) == ("full", found.families[0].longest_seq_len)
    assert "optimizer" in first["option"]["code"]["pytorch"]
    assert result_from_dict(document).families == found.families
    assert json.loads(json.dumps(result_from_dict(document).to_dict())) == document


@pytest.mark.parametrize(
    ("most_tokens", "of_length", "expected"),
    [
        (4096, lambda tokens: tokens * GIB / 256, 4096),
        (100_000, lambda tokens: tokens * GIB / 256, 23_552),
        (100_000, lambda tokens: tokens**2 * GIB / 2**16, 2_432),
    ],
    ids=["the model's positions end it", "even growth", "growth with the square"],
)
def test_the_longest_sequence_is_found_in_few_lengths(most_tokens, of_length, expected):
    machine = gpu(100, longest=most_tokens, sample_bytes=lambda request: of_length(request.seq_len or TOKENS))
    machine.fixed_bytes = lambda _: 0
    request = mm.Request(model=MODEL, target=mm.Target(gpu="h200"))
    inquiry = Inquiry(Question(request=request, advise=True), machine, lambda _: None)
    with machine.open(request, predict_without_gpu=True) as probe:
        inquiry.info = probe.info
    machine.opened.clear()

    found = longest_that_fits(inquiry, request, TOKENS)

    assert of_length(found) <= 95 * GIB
    assert found == pytest.approx(expected, rel=0.04)
    assert len({one.seq_len for one in machine.opened}) <= 5


@pytest.mark.parametrize(("tokens", "to"), [(63, 0), (1000, 960), (4095, 4032), (131_072, 131_072), (100_000, 98_304)])
def test_lengths_are_round_numbers(tokens, to):
    assert rounded(tokens) == to

"""The ways to fine-tune a language model, as they are printed and as HTML."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.render.html import fragment
from memorymark.render.notebook import as_text
from memorymark.results.family import Family
from memorymark.units import GIB
from support.advices import advice, option

FULL = replace(option(("bf16_weights", "checkpointing"), 10.0, 2), slower={"checkpointing": 0.31})
LORA = replace(option(("lora", "checkpointing"), 12.0, 4, steps=4), slower={"checkpointing": 0.28})
FAMILIES = (
    Family(id="full", option=FULL, longest_seq_len=9216),
    Family(id="lora", option=LORA, longest_seq_len=12_288),
    Family(id="qlora", why_not="does not fit even at batch 1."),
)
NOT_TODAY = advice(FULL, LORA, predicted=None, families=FAMILIES)
TODAY = advice(option(("bf16",), 200.0), families=FAMILIES)


def said(text):
    return " ".join(text.split())


@pytest.mark.parametrize("shown", [as_text, fragment])
def test_each_way_is_shown_with_its_least_change_and_how_far_it_goes(shown):
    text = said(shown(NOT_TODAY))

    for word in ("QLoRA", "bf16 weights, gradient checkpointing", "9,216", "12,288", "4 x 4", "does not fit even at"):
        assert word in text
    assert "Here: full 31 % slower, LoRA 28 % slower." in text
    assert text.count("9,216") == 1


@pytest.mark.parametrize("shown", [as_text, fragment])
def test_where_today_fits_the_ways_come_after_the_gains(shown):
    text = said(shown(TODAY))

    assert text.index("2.00x") < text.index("Ways to fine-tune it on this GPU") < text.index("9,216")


@pytest.mark.parametrize("shown", [as_text, fragment])
def test_what_is_offloaded_says_what_it_takes_of_the_host_and_that_its_time_is_unconfirmed(shown):
    recipe = mm.Recipe(precision="bf16", lora=16, offload="activations")
    lora = option(("lora", "offload_activations"), 12.0, 4, recipe=recipe)
    lora = replace(
        lora, predicted=replace(lora.predicted, peak_host_bytes=6 * GIB), slower={"offload_activations": 0.1}
    )
    families = (Family(id="lora", option=lora, longest_seq_len=9216),)

    text = said(shown(advice(lora, predicted=None, families=families)))

    assert "Here: LoRA 10 % slower and 6.00 GiB of the host" in text
    assert "No GPU has confirmed the time of offloading: it assumes 50 GB/s" in text

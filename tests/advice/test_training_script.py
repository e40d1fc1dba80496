"""Advice as a script: what the pasted code takes as given is there, once, and nothing else."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.advice.training_script import script_for
from support.advices import INFO, advice, option

FACTORY = mm.Request(model="nets.py:make")


@pytest.mark.parametrize(
    ("request_", "optimizer", "given"),
    [
        (mm.Request(model="bert"), "", set()),
        (FACTORY, "", {"def loss_of("}),
        (FACTORY, "Lion", {"def loss_of(", "def make_optimizer("}),
    ],
    ids=["of the catalog", "own model", "own model and optimizer"],
)
def test_what_is_ones_own_is_taken_from_the_workload(request_, optimizer, given):
    advised = advice(option(("bf16",), 500.0), request=request_, info=replace(INFO, optimizer=optimizer))

    script = script_for(advised)

    compile(script, "fix.py", "exec")
    assert {name for name in ("def loss_of(", "def make_optimizer(") if name in script} == given


def test_what_is_to_be_pasted_comes_last_and_imports_nothing_twice():
    shorter = replace(option(("shorter",), 500.0, 8, steps=4, recipe=mm.Recipe(lora=16)), seq_len=64)
    advised = advice(shorter)

    before, _, pasted = script_for(advised).partition("# The advice\n\n")

    assert "WARM_UP_STEPS, STEPS = 40, 120\n" in before
    assert "seq_len=64" in before
    assert "import torch\n" in before
    assert "import torch\n" not in pasted
    assert pasted == advised.code(shorter).pytorch.replace("import torch\n", "")


def test_rows_that_flash_attention_joins_are_made_joined():
    request = mm.Request(model="gpt2", task="sft", packed=True, seq_len=512)
    flash = option(("flash",), 500.0, recipe=mm.Recipe(attention="flash", precision="bf16"))

    script = script_for(advice(flash, request=request, info=replace(INFO, sample_sizes={"tokens": 512})))

    compile(script, "fix.py", "exec")
    assert "packed=True" in script
    assert 'recipe=Recipe(attention="flash", precision="bf16")' in script

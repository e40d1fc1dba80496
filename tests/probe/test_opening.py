"""One place opens probes, as the recipe and the target want them."""

import pytest

import memorymark as mm
from memorymark.results.code import Plan, code_for

ASKED = {"gpu": "a10", "memory_gib": 6.0, "small": False, "batch_size": 8}


def test_a_step_is_predicted_with_the_allocator_that_the_recipe_names():
    default, expandable = (mm.analyze("gpt2", allocator=kind, **ASKED) for kind in ("default", "expandable_segments"))

    assert expandable.request.recipe.allocator == "expandable"
    assert "expandable segments" in expandable.request.recipe.describe()
    assert expandable.max_batch_size >= default.max_batch_size
    assert expandable.maximum.peak_reserved_bytes % (2 << 20) == 0
    at_eight = [one.at(8) for one in (default, expandable)]
    assert at_eight[1].peak_allocated_bytes <= at_eight[0].peak_allocated_bytes  # blocks are always split
    assert at_eight[1].peak_reserved_bytes < at_eight[0].peak_reserved_bytes


def test_expandable_segments_need_cuda_to_be_measured():
    with pytest.raises(mm.UsageError, match="expandable segments need a CUDA GPU") as caught:
        mm.measure("bert", 2, device="cpu", allocator="expandable")

    assert caught.value.field == "allocator"


@pytest.mark.parametrize("dialect", ["pytorch", "transformers", "lightning"])
def test_the_code_says_how_to_set_the_allocator(dialect):
    code = code_for(Plan(recipe=mm.Recipe(allocator="expandable"), batch_size=8))

    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in getattr(code, dialect)

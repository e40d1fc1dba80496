"""Where a training fits: the largest batch by GPU and recipe, as an analysis of each would find it."""

import pytest

import memorymark as mm
from memorymark.advice.matrix import gpus_of_matrix
from memorymark.catalog import all_gpus
from memorymark.question.question import Question
from support.decoders import llama
from support.tiny import tiny

FEW = ((), ("bf16",), ("bf16", "checkpointing"), ("bf16", "lora"))


@pytest.fixture(scope="module", autouse=True)
def only_a_few_recipes():
    """Each takes a trace."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("memorymark.advice.matrix.RECIPES", FEW)
        yield


@pytest.fixture(scope="module")
def matrix(only_a_few_recipes):
    return mm.matrix(llama(seq_len=4096), gpu=["a100-80gb", "a10"], optimizer="adamw")


def test_the_gpus_come_by_their_memory_and_the_recipe_as_given_first(matrix):
    assert matrix.gpus == ("a10", "a100-80gb")
    assert (matrix.rows[0].changes, matrix.rows[0].recipe) == ((), mm.Recipe())
    assert len({str(row.recipe) for row in matrix.rows}) == len(matrix.rows)
    assert all([cell.gpu for cell in row.cells] == ["a10", "a100-80gb"] for row in matrix.taken)


@pytest.mark.parametrize("changes", [(), ("bf16", "lora")])
def test_each_cell_is_what_an_analysis_finds(matrix, changes):
    [row] = [row for row in matrix.rows if row.changes == changes]
    found = mm.analyze(llama(seq_len=4096), gpu="a10", **row.options)
    assert row.cells[0].max_batch_size == found.max_batch_size


def test_less_memory_for_each_sample_is_a_larger_batch(matrix):
    sizes = {row.changes: row.cells[0].max_batch_size for row in matrix.rows}
    plain, half, recomputed = (sizes[changes] for changes in ((), ("bf16",), ("bf16", "checkpointing")))
    assert 0 < plain < half < recomputed


def test_recipes_that_a_model_does_not_take_say_why():
    found = mm.matrix(tiny(), gpu="a10", max_batch=64)
    [refused, *_] = [row for row in found.rows if "checkpointing" in row.changes]

    assert found.rows[0].max_batch_size == 64
    assert not refused.cells and "no gradient checkpointing" in refused.why_not
    assert refused not in found.taken


def test_without_a_choice_the_gpus_are_those_with_a_price():
    question = Question(request=mm.Request(model="bert"))
    chosen = gpus_of_matrix(question)

    assert {gpu.id for gpu in chosen} == {gpu.id for gpu in all_gpus() if gpu.price is not None}
    assert [gpu.torch_memory_bytes for gpu in chosen] == sorted(gpu.torch_memory_bytes for gpu in chosen)
    everything = gpus_of_matrix(Question(request=mm.Request(model="bert"), all_gpus=True))
    assert len(everything) == len(all_gpus())


def test_a_matrix_reads_back(matrix):
    assert mm.Matrix.from_dict(matrix.to_dict()) == matrix

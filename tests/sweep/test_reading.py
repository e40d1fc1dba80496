"""What a sweep's file may say, and how it is refused: whole, with every wrong line."""

import pytest

from memorymark.sweep.axes import NOT_OF_A_CASE, VARYING
from memorymark.sweep.mistakes import SweepRefusedError
from memorymark.sweep.plan import cases_of
from memorymark.sweep.reading import of_flags
from support.sweeps import cases

WRONG = """\
model: [bert, {model: resnet, image_size: 64}, brt]
gpu: [a10, h100x]
precision: [fp32, fp23]
seq_lne: 128
recipe:
  - {precision: bf16}
  - {lora: -1}
batch_size: 0
batch_size: 8
task: [[sft]]
optimizer: []
"""


@pytest.fixture
def refused(tmp_path):
    def lines(text, **given):
        file = tmp_path / "sweep.yaml"
        file.write_text(text)
        with pytest.raises(SweepRefusedError) as refusal:
            cases_of(file, of_flags(given), measure=False, has_gpu=False)
        assert refusal.value.exit_code == 2
        assert refusal.value.to_dict()["mistakes"] == [one.to_dict() for one in refusal.value.mistakes]
        return {one.line: one.error for one in refusal.value.mistakes}

    return lines


def test_every_wrong_line_is_named_and_what_is_right_is_not(refused):
    said = refused(WRONG)

    assert list(said) == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert "unknown model 'brt'" in said[1]
    assert "unknown GPU 'h100x': did you mean h100?" in said[2]
    assert "unknown precision 'fp23'" in said[3]
    assert "'seq_lne' is not an option here: did you mean seq_len?" in said[4]
    assert "precision is set here and in line 3" in said[6]
    assert "lora must be 0 or more, not -1" in said[7]
    assert "batch_size must be 1 or more, not 0" in said[8]
    assert "batch_size is already in line 8" in said[9]
    assert "a list in a list" in said[10]
    assert "optimizer has no values" in said[11]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("model: [bert\ngpu: a10\n", 2, "this is not YAML"),
        ("- bert\n", 1, "a sweep is lines such as"),
        ("gpu: a10\n", 0, "name a model"),
        ("model: bert\nmeasure: perhaps\n", 2, "measure is true or false"),
        ("model: bert\nrecipe: bf16\n", 2, "each recipe sets options"),
        ("model:\n  - {gpu: a10}\n", 2, "names its model, too"),
        ("model: [bert, resnet]\ngpu: a10\nimage_size: 64\n", 3, "image_size"),
        ("model: bert\nsamples: 5\ntokens: 6\n", 3, "not in both"),
        (f"model: bert\nbatch_size: {list(range(1, 400))}\nmax_batch: {list(range(400, 800))}\n", 1, "100,000 are the"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(refused, text, line, said):
    assert said in refused(text)[line]


def test_a_case_is_made_for_each_combination_and_for_none_twice():
    found = cases("model: [bert, gpt2]\ngpu: [a10, a10, t4]\nseq_len: 128\n")

    assert [(case.options["model"], case.options["gpu"]) for case in found] == [
        *(("bert", "a10"), ("bert", "t4")),
        *(("gpt2", "a10"), ("gpt2", "t4")),
    ]
    assert {case.question.request.seq_len for case in found} == {128}


def test_options_that_belong_together_are_one_entry():
    found = cases("model: [bert, {model: resnet, image_size: 64}]\ngpu: a10\nrecipe: [{precision: bf16, tf32: true}]\n")

    recipes = {(case.question.request.recipe.precision, case.question.request.recipe.tf32) for case in found}
    assert [case.question.request.image_size for case in found] == [None, 64]
    assert recipes == {("bf16", True)}


def test_all_gpus_are_those_of_the_catalog():
    from memorymark.catalog import all_gpus

    assert [case.options["gpu"] for case in cases("model: bert\ngpu: all\n")] == [gpu.id for gpu in all_gpus()]


def test_flags_take_the_place_of_lines(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("model: [bert, gpt2]\ngpu: a10\n")

    found = cases_of(file, of_flags({"model": "gpt2", "seq_len": "64,128", "tf32": True}), measure=False, has_gpu=False)

    assert [(case.options["model"], case.options["seq_len"], case.options["tf32"]) for case in found] == [
        ("gpt2", 64, True),
        ("gpt2", 128, True),
    ]


def test_a_function_with_several_arguments_is_one_model():
    (axis,) = of_flags({"model": "own.py:make(1, 2),bert"})

    assert [entry["model"].value for entry in axis.entries] == ["own.py:make(1, 2)", "bert"]


def test_an_option_that_is_declared_can_be_swept():
    from memorymark.question.flat import OPTIONS

    assert set(VARYING) == set(OPTIONS) - set(NOT_OF_A_CASE)


def test_where_cases_run_follows_from_what_they_name():
    predicted, here = cases("model: bert\ngpu: a10\n"), cases("model: bert\n", has_gpu=True)
    measured = cases("model: bert\ngpu: [a10, t4]\nmeasure: true\n")

    assert [case.place.measures for case in (*predicted, *here)] == [False, True]
    assert [(case.place.device, case.place.gpu) for case in measured] == [("cuda", "a10"), ("cuda", "t4")]
    assert len({case.key for case in measured}) == 2
    assert {case.on("cuda:1").request.target.device for case in measured} == {"cuda:1"}


def test_cases_that_differ_only_in_what_no_trace_knows_share_one():
    same = cases("model: bert\ngpu: [a10, l4]\nmargin: [0.05, 0.1]\ntf32: [true, false]\nbatch_size: [1, 2]\n")
    other = cases("model: bert\ngpu: [a10, t4]\nseq_len: [8, 16]\n")

    assert len({case.trace for case in same}) == 1
    assert len({case.trace for case in other}) == 4

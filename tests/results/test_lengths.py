import json
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark import answer as engine
from memorymark.catalog import find_gpu
from memorymark.cli.options import parse_lengths
from memorymark.client import as_body
from memorymark.events import StageStarted, TrialFinished
from memorymark.results.lengths import Sweep
from memorymark.results.result import result_from_dict
from memorymark.server.bodies import JobBody
from memorymark.units import GIB, MIB
from memorymark.worker.supervisor import FreshWorkers
from support.lengths import LONG, MIDDLE, REQUEST, SHORT, SWEEP

A10 = find_gpu("a10")


def test_the_longest_is_the_one_to_plan_for():
    assert (SWEEP.plan_for, SWEEP.planned_batch, SWEEP.plan) == (512, 8, LONG)
    assert SWEEP.advice[0].startswith("Plan for 512 tokens, the longest: batch 8 fits if no sample is longer")


def test_what_the_shorter_ones_lose_is_the_throughput_that_their_own_batch_would_have():
    lost = {length.seq_len: length.lost for length in SWEEP.lengths}

    assert lost == {128: 0.75, 256: 0.5, 512: 0.0}
    assert "75 % at 128 tokens (batch 64 fits there), 50 % at 256 tokens (batch 32 fits there)" in SWEEP.advice[1]


def test_a_length_that_does_not_fit_is_said_and_the_longest_that_does_is_planned_for():
    partly = Sweep(REQUEST, (128, 256, 512), {128: SHORT, 256: MIDDLE})

    assert partly.plan_for == 256
    assert partly.advice[0].startswith("512 tokens do not fit even at batch 1: cut samples at 256 tokens")
    assert "the longest that fits" in partly.advice[1]
    assert [row["fits"] for row in partly.to_dict()["lengths"]] == [True, True, False]


def test_where_no_size_keeps_the_margin_the_largest_is_planned_for():
    tight = replace(LONG, trials=[replace(t, peak_reserved_bytes=23 * GIB) for t in LONG.trials])

    alone, beside = Sweep(REQUEST, (512,), {512: tight}), replace(SWEEP, analyses={**SWEEP.analyses, 512: tight})
    said = "Plan for 512 tokens, the longest: batch 8 is all that fits, and does not leave a margin of 5 %"
    assert tight.recommended is None
    assert alone.planned_batch == beside.planned_batch == 8
    assert alone.advice[0] == f"{said}."
    assert beside.advice[0] == f"{said}; the longest that leaves it has 256 tokens."


def test_a_sweep_survives_json_and_is_told_from_other_results():
    document = json.loads(json.dumps(SWEEP.to_dict()))

    assert result_from_dict(document) == SWEEP
    assert result_from_dict(json.loads(json.dumps(LONG.to_dict()))) == LONG
    assert (document["plan_for"], document["max_batch_size"], document["recommended_batch_size"]) == (512, 8, 8)


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        (None, {}),
        ("512", {"seq_len": 512}),
        ("512,512", {"seq_len": 512}),
        ("128, 512,64", {"seq_lens": (128, 512, 64)}),
    ],
)
def test_one_length_is_as_ever_and_several_make_a_sweep(text, lengths):
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize("text", ["", "long", "128;512", "128,", "1.5"])
def test_what_are_no_lengths_is_said(text):
    with pytest.raises(mm.UsageError, match="seq_len= takes a number, or several as in 128,512,2048, not "):
        parse_lengths(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seq_lens": (128, 4096)}, "bert takes 1 to 512 tokens; seq_len=4096 is out of range"),
        ({"seq_lens": (128, 0)}, "seq_len= must be 1 or more, not 0"),
        ({"seq_lens": (64, 128), "all_gpus": True}, "a comparison of GPUs takes one length; give one seq_len="),
        (
            {"seq_lens": (64, 128), "request": replace(REQUEST, seq_len=64)},
            "ask for one length or for several, not both",
        ),
        ({"seq_lens": (64, 128), "request": mm.Request(model="resnet")}, "seq_len= does not apply to resnet"),
    ],
    ids=str,
)
def test_lengths_that_cannot_be_asked_for_are_refused(options, said):
    with pytest.raises(mm.UsageError, match=said):
        mm.Question(**{"request": REQUEST, **options})


def test_a_question_with_lengths_survives_json_and_http():
    question = mm.Question(request=replace(REQUEST, recipe=mm.Recipe(lora=8)), seq_lens=(64, 128))

    body = JobBody.model_validate(json.loads(json.dumps(as_body(question))))

    assert mm.Question.from_dict(json.loads(json.dumps(question.to_dict()))) == question
    assert body.question() == question


class Counted(FreshWorkers):
    def __init__(self):
        self.taken = 0

    def take(self):
        self.taken += 1
        return super().take()


@pytest.fixture(scope="module", params=["measured", "predicted"])
def swept(request):
    """Small stand-ins at three lengths, run on the CPU and predicted."""
    measured = mm.Target(device="cpu", memory_cap_bytes=12 * MIB)
    target = measured if request.param == "measured" else mm.Target(gpu="a10", memory_cap_bytes=100 * MIB)
    asked = mm.Request(model="bert", small=True, recipe=mm.Recipe(optimizer="sgd"), target=target)
    events, workers = [], Counted()
    question = mm.Question(request=asked, current_batch_size=2, margin=0.1, seq_lens=(64, 16, 32))
    return engine.answer(question, on_event=events.append, workers=workers), events, workers


def test_every_length_has_the_largest_batch_of_its_own(swept):
    result, _, _ = swept

    assert list(result.analyses) == [16, 32, 64]
    assert [analysis.info.sample for analysis in result.analyses.values()] == ["16 tokens", "32 tokens", "64 tokens"]
    assert [analysis.request.seq_len for analysis in result.analyses.values()] == [16, 32, 64]
    maxima = [analysis.max_batch_size for analysis in result.analyses.values()]
    assert maxima == sorted(set(maxima), reverse=True)
    assert all(analysis.max_is_exact for analysis in result.analyses.values())


def test_one_worker_does_all_lengths_the_longest_first(swept):
    result, events, workers = swept

    stages = [event.message for event in events if isinstance(event, StageStarted) and event.stage == "start"]
    assert workers.taken == 1
    assert stages[1:] == ["going on with 32 tokens", "going on with 16 tokens"]
    told = [event.trial for event in events if isinstance(event, TrialFinished)]
    assert told == [trial for length in (64, 32, 16) for trial in result.analyses[length].trials]


def test_the_seconds_of_the_stages_make_the_whole_of_each_length(swept):
    result, _, _ = swept

    for analysis in result.analyses.values():
        parts = {name: seconds for name, seconds in analysis.seconds.items() if name != "total"}
        assert sum(parts.values()) <= analysis.seconds["total"]


def test_the_planned_batch_was_timed_at_every_length(swept):
    result, _, _ = swept

    assert result.plan_for == 64
    assert all(analysis.at(result.planned_batch).samples_per_second for analysis in result.analyses.values())
    assert all(length.lost is not None for length in result.lengths)


def test_a_length_alone_gives_the_same_maximum(swept):
    result, _, _ = swept
    one = result.analyses[16]

    alone = engine.answer(mm.Question(request=one.request, current_batch_size=2, margin=0.1))

    assert alone.max_batch_size == one.max_batch_size


def test_lengths_of_which_none_fits_say_so():
    asked = mm.Request(model="bert", small=True, target=mm.Target(gpu="a10", memory_cap_bytes=20 * MIB))

    with pytest.raises(mm.DoesNotFitError, match=r"within 20\.0 MiB even at batch 1"):
        engine.answer(mm.Question(request=asked, seq_lens=(16, 32)))

"""Ranks to measure and what others published on several GPUs are questions, or say why not."""

import json

from memorymark.keywords import make_request
from several_gpus import RECORD
from several_gpus_cases import RANKS, Question, question_of, rows


def test_thirty_ranks_of_every_strategy_can_be_asked_about():
    requests = [make_request(rank.model, {**rank.options, "gpu": "h200"}) for rank in RANKS]

    assert len({rank.id for rank in RANKS}) == len(RANKS) >= 30
    used = {request.recipe.used_strategy for request in requests}
    assert used == {"ddp", "zero1", "zero2", "fsdp", "hsdp", None}
    assert {(r.recipe.tensor_parallel > 1, r.recipe.shards_weights) for r in requests} >= {(True, True), (True, False)}
    assert {2, 64} <= {request.recipe.gpus for request in requests}


def test_every_published_row_is_a_question_or_says_why_not():
    found = [question_of(row) for row in rows()]
    asked = [one for one in found if isinstance(one, Question)]

    assert len(found) == 90 and len(asked) >= 40
    for one in asked:
        make_request(one.model or "mpt", {**one.options, **({"config": one.config} if one.config else {})})


def test_what_was_recorded_is_of_rows_that_ran():
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    predicted = [one for one in recorded.values() if "why_not" not in one]

    assert predicted and all(one["fits"] for one in predicted)
    assert all(one["within"] for one in predicted if "within" in one)

"""One question for several GPUs."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.engine import compare as comparing
from memorymark.engine.compare import compare
from memorymark.engine.site import Site
from memorymark.question.question import Question

GPUS = ("h100", "t4", "a10", "l4")


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared():
    """Each lane has a worker of its own."""


def test_two_workers_find_what_one_finds(monkeypatch):
    monkeypatch.setattr(comparing, "FEWEST_FOR_A_WORKER", 2)
    question = Question(request=mm.Request(model="bert", small=True), compare_gpus=GPUS, max_batch=64)

    def found(lanes):
        heard = []
        comparison = compare(question, Site(lanes=lanes), heard.append)
        analyses = {
            gpu: replace(one, seconds={}, info=replace(one.info, seconds={}))
            for gpu, one in comparison.analyses.items()
        }
        return analyses, comparison.compared, {event.message for event in heard}

    assert found(2) == found(1)

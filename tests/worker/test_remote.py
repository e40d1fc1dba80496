"""A probe in a worker process: what it asks a worker that takes the place of another."""

from dataclasses import replace

import pytest

from memorymark import answer as engine
from memorymark.catalog import find_gpu
from memorymark.errors import CannotPredictError, WorkerLostError
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.worker.remote import RemoteProbe
from support.advices import INFO, trial


class Unclean:
    """Stands for workers that leave memory behind after each trial, and notes what they are asked."""

    is_sealed = False

    def __init__(self):
        self.asked = []

    def take(self):
        return self

    def give_back(self, worker):
        pass

    def kill(self):
        pass

    def call(self, name, arguments, _):
        self.asked.append((name, arguments))
        if name == "measure":
            return {"trial": trial(1.0, arguments["batch_size"]).to_dict(), "clean": False}
        return replace(INFO, device_name=str(arguments.get("gpu"))).to_dict()


def test_a_worker_that_takes_the_place_of_another_goes_on_with_its_gpu():
    workers = Unclean()
    with RemoteProbe(Request(model="bert", target=Target(gpu="a10")), workers=workers) as probe:
        probe.retarget(find_gpu("h100"))
        probe.measure(2)
        probe.measure(4)
        probe.retarget(find_gpu("t4"))

    opened = [arguments["request"]["target"]["gpu"] for name, arguments in workers.asked if name == "open"]
    assert opened == ["a10", "h100", "t4"]


class Mortal(Unclean):
    """Stands for a worker that is lost when it is to go on with something else for the second time."""

    def call(self, name, arguments, _):
        self.asked.append((name, arguments))
        goes_on = [one for one, _ in self.asked if one in ("retarget", "reshape")]
        if len(goes_on) == 2:
            raise WorkerLostError("the worker was killed.")
        answers = {"second_batch": {"batch_size": None}, "forecast": {"maximum": 2}}
        if "batch_size" in arguments:
            return {"trial": trial(1.0, arguments["batch_size"]).to_dict(), "clean": True}
        return answers.get(name) or INFO.to_dict()


@pytest.mark.parametrize(
    "question",
    [
        Question(request=Request(model="bert"), all_gpus=True, max_batch=2),
        Question(request=Request(model="bert", target=Target(gpu="a10")), seq_lens=(16, 32, 64), max_batch=2),
    ],
    ids=["all GPUs", "several lengths"],
)
def test_what_is_asked_of_several_is_no_answer_where_a_worker_is_lost_on_the_way(question):
    with pytest.raises(WorkerLostError):
        engine.answer(question, workers=Mortal())


def test_an_error_of_a_worker_keeps_its_data():
    recipe = Recipe(compile=True)
    request = Request(model="bert", small=True, recipe=recipe, target=Target(gpu="a10"))

    with pytest.raises(CannotPredictError, match="drop compile=, or measure on a GPU") as caught, RemoteProbe(request):
        pass

    error = caught.value
    assert (error.code, error.field, error.given) == ("cannot_predict", "compile", True)
    assert [one.change for one in error.suggestions] == [{"compile": False}]
    assert "drop --compile, or measure" in error.said_in("command_line")
    assert error.reason.endswith("a compiled step cannot be predicted.")

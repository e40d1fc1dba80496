"""Jobs as the history keeps them, with a result that was measured."""

from dataclasses import replace

from memorymark.history import JobEvent, new_job
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from support.recorded_analyses import recorded

HAPPENED = [
    JobEvent(1, "state", {"state": "queued"}, 1_700_000_000.25),
    JobEvent(2, "stage", {"stage": "start", "message": "größer; 'quoted' \u2028 --option"}, 1_700_000_001.5),
    JobEvent(3, "result", {}, 1_700_000_002.125),
]


def asked(origin="cli", *, model="bert", all_gpus=False, precision="fp32", **changes):
    """A job about a model."""
    request = Request(model=model, recipe=Recipe(precision=precision))
    return replace(new_job(Question(request=request, all_gpus=all_gpus), origin), **changes)


def done(origin="cli", *, case="bert_fp32", **changes):
    """A job with the analysis of a case that was recorded."""
    times = {"created_at": 1_700_000_000.1, "started_at": 1_700_000_001.2, "finished_at": 1_700_000_002.3}
    result = analysis(case).to_dict()
    return asked(origin, model=result["model_name"], state="done", result=result, **{**times, **changes})


def compared(**changes):
    """A job with a comparison, in which only one GPU takes part."""
    one = analysis("bert_fp32")
    return asked(all_gpus=True, state="done", result=Comparison(one.request, {"h200": one}).to_dict(), **changes)


def advised(advice, **changes):
    question = Question(request=advice.request, advise=True)
    return replace(new_job(question, "cli"), state="done", result=advice.to_dict(), **changes)


def failed(**changes):
    return asked(state="failed", error="it does not fit; try --precision bf16.", error_kind="does_not_fit", **changes)


def analysis(case):
    """The recorded analysis as it is once it has been JSON."""
    return Analysis.from_dict(recorded(case)[1].to_dict())

"""The Python API: the commands of the command line as functions, with the same options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from memorymark import answer as engine
from memorymark.errors import UsageError
from memorymark.keywords import make_question, make_request, split_lengths, taken_run
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.question.request import Request
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.explanation import Explanation
from memorymark.results.lengths import Sweep
from memorymark.results.matrix import Matrix
from memorymark.results.result import Result
from memorymark.results.trial import Trial
from memorymark.training.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memorymark.keyword_types import AnalysisOptions, TrialOptions


@overload
def analyze(
    model: str | Request | Workload,
    *,
    seq_len: int | None = None,
    all_gpus: Literal[False] = False,
    **options: Unpack[AnalysisOptions],
) -> Analysis: ...
@overload
def analyze(
    model: str | Request | Workload, *, seq_len: Sequence[int], **options: Unpack[AnalysisOptions]
) -> Sweep: ...
@overload
def analyze(
    model: str | Request | Workload,
    *,
    seq_len: int | None = None,
    all_gpus: Literal[True],
    **options: Unpack[AnalysisOptions],
) -> Comparison: ...
def analyze(
    model: str | Request | Workload,
    *,
    seq_len: int | Sequence[int] | None = None,
    all_gpus: bool = False,
    **options: Any,
) -> Result:
    """Finds the largest batch that trains, the one worth using, and what it saves.

    ``model`` is a name, a ``Request``, or a ``Workload``, which is run or predicted in this process. The options are
    those of ``memorymark analyze`` by the same names: ``analyze("bert", gpu="a10", precision="bf16", batch_size=16)``.
    ``batch_size`` is the one you use today. A list of lengths as ``seq_len`` returns a ``Sweep``, ``all_gpus`` a
    ``Comparison``. If the analysis fails, the error's ``trials`` holds the trials that finished before.
    """
    run, lengths = taken_run(options), split_lengths(seq_len)
    if "seq_lens" in lengths and isinstance(model, Workload):
        raise UsageError(
            "a Workload makes its own batches; analyze one for each length.",
            code="not_applicable",
            field="seq_len",
            given=list(lengths["seq_lens"]),
        )
    question = make_question(model, {**options, **lengths, "all_gpus": all_gpus})
    return engine.answer(question, workload=_own(model), **run)


def advise(
    model: str | Request | Workload,
    *,
    seq_len: int | None = None,
    try_compile: bool = True,
    **options: Unpack[AnalysisOptions],
) -> Advice:
    """Finds better recipes for a training, ranked by gain, each with its cost and code to paste.

    The options are those of ``analyze`` and say how you train today. All recipes are predicted; on a GPU, the best few
    are also run, with ``torch.compile`` too unless ``try_compile`` is off.
    """
    given: dict[str, Any] = {**options, "advise": True, "try_compile": try_compile}
    if seq_len is not None:
        given["seq_len"] = seq_len
    run = taken_run(given)
    advice = engine.answer(make_question(model, given), workload=_own(model), **run)
    assert isinstance(advice, Advice)  # noqa: S101 - that is what was asked for
    return advice


def predict(
    model: str | Request | Workload, batch_size: int = DEFAULT_CURRENT, **options: Unpack[TrialOptions]
) -> Trial:
    """Predicts one batch size for the GPU that ``gpu`` names, the local one, or the default."""
    given: dict[str, Any] = {**options, "batch_size": batch_size}
    run, batch_size = taken_run(given, several_gpus=False), given.pop("batch_size")
    return engine.predict(make_request(model, given), batch_size, workload=_own(model), **run)[1]


def measure(
    model: str | Request | Workload, batch_size: int = DEFAULT_CURRENT, **options: Unpack[TrialOptions]
) -> Trial:
    """Runs one batch size on a local device and returns its memory peaks, breakdown and throughput."""
    given: dict[str, Any] = {**options, "batch_size": batch_size}
    run, batch_size = taken_run(given, several_gpus=False), given.pop("batch_size")
    return engine.measure(make_request(model, given), batch_size, workload=_own(model), **run)[1]


def explain(
    model: str | Request | Workload,
    batch_size: int = DEFAULT_CURRENT,
    *,
    snapshot: str | Path | None = None,
    **options: Unpack[TrialOptions],
) -> Explanation:
    """Says where the memory of a step goes: through the step, and module by module at its peak.

    It runs on the GPU here, and is predicted for the one that ``gpu`` names, or if there is none here. ``snapshot`` is
    a file to write for PyTorch's memory viewer.
    """
    given: dict[str, Any] = {**options, "batch_size": batch_size}
    run, batch_size = taken_run(given, several_gpus=False), given.pop("batch_size")
    file = None if snapshot is None else Path(snapshot)
    return engine.explain(make_request(model, given), batch_size, workload=_own(model), snapshot=file, **run)


def matrix(
    model: str | Request | Workload,
    *,
    all_gpus: bool = False,
    max_batch: int | None = None,
    **options: Unpack[TrialOptions],
) -> Matrix:
    """Predicts where a training fits: the largest batch for each of several GPUs and recipes.

    The GPUs are those that ``gpu`` names, ``all_gpus`` of the catalog, or those with a price. The recipes are the one
    of the options, and others with less memory: bf16, checkpointing, an 8-bit optimizer, LoRA and QLoRA.
    """
    given: dict[str, Any] = {**options, "all_gpus": all_gpus, "max_batch": max_batch}
    run = taken_run(given)
    return engine.matrix(make_question(model, given), workload=_own(model), **run)


def analyze_all_gpus(model: str | Request | Workload, **options: Unpack[AnalysisOptions]) -> Comparison:
    """Predicts the same training for every GPU of the catalog, to find the fastest and the cheapest."""
    return analyze(model, all_gpus=True, **options)


def _own(model: str | Request | Workload) -> Workload | None:
    return model if isinstance(model, Workload) else None

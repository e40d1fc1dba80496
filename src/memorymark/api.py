"""What a Python program calls: the command line's jobs, with the same names for the same options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from memorymark import engine
from memorymark.advice import Advice
from memorymark.analysis import Analysis
from memorymark.comparison import Comparison
from memorymark.cost import Usage
from memorymark.errors import UsageError
from memorymark.keywords import AnalysisOptions, in_python_terms, make_request
from memorymark.question import DEFAULT_CURRENT, Question
from memorymark.request import Request
from memorymark.result import Result
from memorymark.sweep import Sweep
from memorymark.trial import Trial
from memorymark.type_checks import require_types, shown, whole
from memorymark.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memorymark.keywords import TrialOptions

ASKED = ("max_batch", "margin", "price_per_hour")
USAGE = ("hours_per_run", "runs_per_year", "people")


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
@in_python_terms()
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
    ``batch_size`` is that of today. Several lengths as ``seq_len`` give a ``Sweep``, ``all_gpus`` a ``Comparison``.
    If the work ends early, the error's ``trials`` holds what had been learned until then.
    """
    run, several = _run(options), _several(seq_len)
    if seq_len is not None and several is None:
        options["seq_len"] = seq_len
    if several and isinstance(model, Workload):
        raise UsageError("a Workload makes its own batches; analyze one for each length.")
    question = _question(model, options, all_gpus=all_gpus, seq_lens=several or ())
    return engine.answer(question, workload=_own(model), **run)


@in_python_terms()
def advise(
    model: str | Request | Workload,
    *,
    seq_len: int | None = None,
    try_compile: bool = True,
    **options: Unpack[AnalysisOptions],
) -> Advice:
    """Finds what to change about a training: recipes ranked by what they gain, with what each costs and code to paste.

    The options say how you train today; they are those of ``analyze``. Recipes are predicted; on a GPU, the best few
    are run, with ``torch.compile`` too if ``try_compile`` is left on.
    """
    given: dict[str, Any] = dict(options)
    if seq_len is not None:
        given["seq_len"] = seq_len
    run, question = _run(given), _question(model, given, advise=True, try_compile=try_compile)
    advice = engine.answer(question, workload=_own(model), **run)
    assert isinstance(advice, Advice)  # noqa: S101 - that is what was asked for
    return advice


@in_python_terms()
def predict(
    model: str | Request | Workload, batch_size: int = DEFAULT_CURRENT, **options: Unpack[TrialOptions]
) -> Trial:
    """Predicts one batch size: for the GPU that ``gpu`` names, the one here, or the default one."""
    given: dict[str, Any] = {**options, "batch_size": batch_size}
    run, batch_size = _run(given), given.pop("batch_size")
    return engine.predict(make_request(model, given), batch_size, workload=_own(model), **run)[1]


@in_python_terms()
def measure(
    model: str | Request | Workload, batch_size: int = DEFAULT_CURRENT, **options: Unpack[TrialOptions]
) -> Trial:
    """Runs one batch size on the device here: peaks, breakdown, throughput."""
    given: dict[str, Any] = {**options, "batch_size": batch_size}
    run, batch_size = _run(given), given.pop("batch_size")
    return engine.measure(make_request(model, given), batch_size, workload=_own(model), **run)[1]


def analyze_all_gpus(model: str | Request | Workload, **options: Unpack[AnalysisOptions]) -> Comparison:
    """Predicts the same training for every GPU of the catalog: where it is fastest and where cheapest."""
    return analyze(model, all_gpus=True, **options)


def _question(model: str | Request | Workload, options: dict[str, Any], **asked: Any) -> Question:
    asked |= {name: options.pop(name) for name in ASKED if name in options}
    usage = Usage(**{name: options.pop(name) for name in USAGE if name in options})
    current = options.pop("batch_size", DEFAULT_CURRENT)
    return Question(request=make_request(model, options), current_batch_size=current, usage=usage, **asked)


def _run(options: dict[str, Any]) -> dict[str, Any]:
    """How the work is done; its options are taken out, after the types of all were looked at."""
    options.update(require_types(options, AnalysisOptions))
    names = {"time_limit": "time_limit_seconds", "on_event": "on_event"}
    return {names[name]: options.pop(name) for name in names if name in options}


def _several(seq_len: Any) -> tuple[int, ...] | None:
    """Several lengths, each once; ``None`` if it is one or none."""
    if seq_len is None or isinstance(seq_len, str) or not isinstance(seq_len, Iterable) or whole(seq_len) is not None:
        return None
    lengths = [(length, whole(length)) for length in seq_len]
    for given, number in lengths:
        if number is None:
            raise UsageError(f"seq_len must be a whole number, or several in a list, not {shown(given)} among them.")
    return tuple(dict.fromkeys(number for _, number in lengths if number is not None))


def _own(model: str | Request | Workload) -> Workload | None:
    return model if isinstance(model, Workload) else None

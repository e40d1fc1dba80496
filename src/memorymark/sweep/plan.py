"""Makes the cases of a grid, or says everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memorymark.catalog import all_gpus, find_gpu
from memorymark.devices.resolve import where_no_gpu_is
from memorymark.errors import UsageError
from memorymark.messages import Dialect
from memorymark.question.flat import make_question
from memorymark.question.gpu_choice import with_gpu_options
from memorymark.question.question import Question
from memorymark.sweep.axes import ALL, Axes, Axis, Given
from memorymark.sweep.cases import Case, Place, place_of
from memorymark.sweep.mistakes import Mistake, SweepRefusedError
from memorymark.sweep.reading import IN_A_FILE, read_file

# More would take days even on a thousand cores.
MOST_CASES = 100_000
# Errors that depend on the other options of a case, and so are looked for in whole cases.
OF_COMBINATIONS = ("conflict", "not_applicable", "missing")
# A model that most options apply to, to check them alone.
ANY_MODEL = "bert"


def cases_of(file: Path | None, flags: Sequence[Axis], *, measure: bool, has_gpu: bool) -> list[Case]:
    """Returns the cases of a file and of flags, which come before it; raises one error that names every mistake."""
    known: tuple[Mistake, ...] = ()
    axes = Axes(())
    if file is not None:
        try:
            axes = read_file(file)
        except SweepRefusedError as error:
            if error.readable is None:
                raise
            axes, known = error.readable, tuple(error.mistakes)
    axes = axes.with_axes(flags)
    source = str(file) if file is not None else "the sweep"
    return plan(replace(axes, measure=axes.measure or measure), source, has_gpu=has_gpu, known=known)


def plan(axes: Axes, source: str, *, has_gpu: bool, known: tuple[Mistake, ...] = ()) -> list[Case]:
    """Returns the cases; raises one error that names every mistake, those already ``known`` included.

    ``has_gpu`` says that a case that names neither a GPU nor a device can be measured; else it is predicted.
    """
    axes = Axes(tuple(_all_gpus_named(axis) for axis in axes.axes), axes.measure)
    mistakes = set(known)
    if axes.count > MOST_CASES:
        said = f"these are {axes.count:,} cases, and {MOST_CASES:,} are the most; split the sweep."
        raise SweepRefusedError(source, [*mistakes, Mistake(_first_line(axes), said)])
    wrong = {(name, given): one for name, given in _givens(axes) if (one := _alone(name, given)) is not None}
    mistakes |= set(wrong.values())
    if not any("model" in entry for axis in axes.axes for entry in axis.entries):
        mistakes.add(Mistake(0, "name a model, or several: model: [bert, gpt2].", "model"))
        raise SweepRefusedError(source, mistakes)
    cases: dict[str, Case] = {}
    for combination in axes.combinations():
        if any(one in wrong for one in combination.items()):
            continue
        try:
            case = _case(len(cases) + 1, combination, measure=axes.measure, has_gpu=has_gpu)
        except UsageError as error:
            mistakes.add(_mistake(error, combination))
        else:
            cases.setdefault(case.key, case)
    if mistakes:
        raise SweepRefusedError(source, mistakes)
    return list(cases.values())


def _case(number: int, combination: Mapping[str, Given], *, measure: bool, has_gpu: bool) -> Case:
    options = {name: given.value for name, given in combination.items()}
    asked, gpu = dict(options), None
    if measure and asked.get("gpu") is not None:
        gpu = find_gpu(asked.pop("gpu")).id
    question = make_question(with_gpu_options(asked, several=False))
    place = place_of(question.request.target, measured_on=gpu)
    if place == Place("cuda") and question.request.target.is_open and not has_gpu and not measure:
        question = _predicted(question)
        place = place_of(question.request.target, measured_on=None)
    return Case(number, question, place, options)


def _predicted(question: Question) -> Question:
    request = question.request
    return replace(question, request=replace(request, target=where_no_gpu_is(request.target)))


def _givens(axes: Axes) -> Iterator[tuple[str, Given]]:
    for axis in axes.axes:
        for entry in axis.entries:
            yield from entry.items()


def _alone(name: str, given: Given) -> Mistake | None:
    """Returns what is wrong with a value whatever the other options are."""
    try:
        make_question({"model": ANY_MODEL, **with_gpu_options({name: given.value}, several=False)})
    except UsageError as error:
        if error.code in OF_COMBINATIONS:
            return None
        return Mistake(given.line, error.said_in(_dialect(given.line)), name)
    return None


def _mistake(error: UsageError, combination: Mapping[str, Given]) -> Mistake:
    """Returns the mistake of a whole case, at the line of the option that the error is about."""
    given = combination.get(error.field) or combination["model"]
    return Mistake(given.line, error.said_in(_dialect(given.line)), error.field)


def _dialect(line: int) -> Dialect:
    return IN_A_FILE if line else "command_line"


def _all_gpus_named(axis: Axis) -> Axis:
    """Returns the axis with every GPU of the catalog in place of ``all``."""
    entries: list[dict[str, Given]] = []
    for entry in axis.entries:
        given = entry.get("gpu")
        if given is not None and given.value == ALL:
            entries += [{**entry, "gpu": Given(gpu.id, given.line)} for gpu in all_gpus()]
        else:
            entries.append(entry)
    return Axis(axis.name, axis.line, tuple(entries))


def _first_line(axes: Axes) -> int:
    return min((axis.line for axis in axes.axes), default=0)

"""Fits where: the largest batch of a training for each of several GPUs and recipes, from one trace for each recipe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from memorymark.advice.fitting import facts_of
from memorymark.catalog import GpuEntry, all_gpus
from memorymark.devices.resolve import for_gpu
from memorymark.engine.reference import check_catalog_reference, check_reference
from memorymark.engine.search import TrialLog, search_with
from memorymark.engine.site import Site
from memorymark.errors import CannotPredictError, MemoryMarkError, UsageError
from memorymark.events import OnEvent, StageStarted, ignore
from memorymark.prediction.tracing.sharing import generation
from memorymark.probe.base import OpenProbe
from memorymark.question.change import Facts
from memorymark.question.changes import AMPERE, CHANGES
from memorymark.question.limits import NO_LIMIT
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.results.matrix import Matrix, MatrixCell, MatrixRow
from memorymark.results.probe_info import ProbeInfo

# The recipes beside the one as given, by what is changed in it; what does not apply is left out.
RECIPES = (
    (),
    ("bf16",),
    ("bf16", "checkpointing"),
    ("bf16", "adamw8bit", "checkpointing"),
    ("bf16", "lora"),
    ("bf16", "lora", "checkpointing"),
    ("bf16", "nf4"),
    ("bf16", "nf4", "checkpointing"),
)
Changed = tuple[tuple[str, ...], Request]


def gpus_of_matrix(question: Question) -> tuple[GpuEntry, ...]:
    """Returns the GPUs that a question names, or else those of the catalog with a price, by their memory."""
    target = question.request.target
    if question.compares_gpus:
        chosen: tuple[GpuEntry, ...] = question.gpus_compared
    elif target.entry is not None:
        chosen = (target.entry,)
    else:
        chosen = tuple(gpu for gpu in all_gpus() if gpu.price is not None)
    return tuple(sorted(chosen, key=lambda gpu: gpu.torch_memory_bytes))


def matrix_of(question: Question, site: Site, on_event: OnEvent) -> Matrix:
    """Predicts the largest batch of every recipe on every GPU."""
    check_catalog_reference(question.request)
    gpus = gpus_of_matrix(question)
    limit = question.max_batch or NO_LIMIT
    rows: list[MatrixRow] = []
    info: ProbeInfo | None = None
    wanted: list[Changed] = [((), question.request)]
    on_event(site.announce("tracing", question.request))
    while wanted:
        changes, request = wanted.pop(0)
        options = _options(question.request, request)
        on_event(StageStarted("search", f"{request.recipe.describe()}: {len(gpus)} GPUs"))
        try:
            cells, row_info = _cells(request, gpus, limit, site)
        except (UsageError, CannotPredictError) as error:
            if info is None:
                raise
            rows.append(_row(changes, options, request, info, [], error.sentence))
            continue
        if info is None:
            info = row_info
            check_reference(question.request, info)
            wanted = _changed(question.request, replace(facts_of(info), capability=AMPERE))
        rows.append(_row(changes, options, request, row_info, cells))
    assert info is not None  # noqa: S101 - the recipe as given raises what goes wrong
    return Matrix(request=question.request, gpus=tuple(gpu.id for gpu in gpus), info=info, rows=rows)


def _row(
    changes: tuple[str, ...],
    options: dict[str, Any],
    request: Request,
    info: ProbeInfo,
    cells: list[MatrixCell],
    why_not: str = "",
) -> MatrixRow:
    title = request.recipe.describe(info.optimizer, info.weights_dtype if cells else "")
    return MatrixRow(changes=changes, options=options, recipe=request.recipe, title=title, cells=cells, why_not=why_not)


def _changed(request: Request, facts: Facts) -> list[Changed]:
    """Returns the other recipes, each once."""
    found: dict[str, Changed] = {str(request.recipe): ((), request)}
    for wanted in RECIPES:
        made, changed = [], request
        for change in wanted:
            try:
                then = CHANGES[change].to(changed, facts)
            except UsageError:  # it conflicts with another option
                then = None
            if then is not None:
                made.append(change)
                changed = then
        found.setdefault(str(changed.recipe), (tuple(made), changed))
    return [one for one in found.values() if one[0]]


def _options(before: Request, after: Request) -> dict[str, Any]:
    now = before.recipe.to_dict()
    return {name: value for name, value in after.recipe.to_dict().items() if now[name] != value}


def _cells(request: Request, gpus: Iterable[GpuEntry], limit: int, site: Site) -> tuple[list[MatrixCell], ProbeInfo]:
    """Returns the largest batch on each GPU, and what is known of the model; GPUs of a generation share a trace."""
    ordered = sorted(gpus, key=lambda gpu: generation(gpu.capability))
    first, found = ordered[0], {}
    with site.open(replace(request, target=for_gpu(request.target, first))) as probe:
        info = probe.info
        for gpu in ordered:
            found[gpu.id] = _cell(probe, gpu, limit, is_open=gpu is first)
    return [found[gpu.id] for gpu in gpus], info


def _cell(probe: OpenProbe, gpu: GpuEntry, limit: int, *, is_open: bool) -> MatrixCell:
    try:
        if not is_open:
            probe.retarget(gpu)
        return MatrixCell(gpu=gpu.id, max_batch_size=search_with(probe, limit, TrialLog(ignore)).maximum)
    except MemoryMarkError as error:
        return MatrixCell(gpu=gpu.id, max_batch_size=0, why_not=error.sentence)

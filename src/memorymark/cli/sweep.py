"""``memorymark sweep``: a grid of questions, on this machine or on a Ray cluster."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memorymark.cli import options as o
from memorymark.cli.asking import InterruptionError
from memorymark.cli.output_files import require_folder, write_output
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.flat import OPTIONS
from memorymark.question.options import Option
from memorymark.sweep.axes import VARYING
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS

if TYPE_CHECKING:
    from memorymark.results.grid import Grid
    from memorymark.sweep.engines import Engine

EngineName = Literal["local", "ray"]
FORMS = (".html", ".htm", ".csv", ".json")


def takes_axes(command: Callable[..., None]) -> Callable[..., None]:
    """Adds every option of a question to a command's own, each with one value or several."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    varying = [_parameter(OPTIONS[name]) for name in VARYING]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own[:1], *varying, *own[1:])]

    @wraps(command)
    def with_axes(**values: Any) -> None:
        given = {one.name: values.pop(one.name) for one in varying}
        command({name: value for name, value in given.items() if value is not None}, **values)

    with_axes.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_axes.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_axes


def _parameter(one: Option) -> inspect.Parameter:
    kind: Any = bool if one.type == "flag" else str
    metavar = None if one.type == "flag" else f"{one.metavar or 'VALUE'}[,...]"
    flags = one.flags or (one.flag,)
    declared = typer.Option(*flags, help=one.help, metavar=metavar, autocompletion=o.COMPLETE.get(one.name))
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, declared]
    )


@takes_axes
def sweep(
    given: dict[str, Any],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A YAML file with options, each with one value or a list.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run on the GPUs that are named, instead of predicting for them.")
    ] = False,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="Where workers run: on this machine, or on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address", help="The Ray cluster's address, such as 10.0.0.1:6379; defaults to the one of this node."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Predictions at a time here; depends on the CPUs by default.")
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Also write this file, a .html, .csv or .json; can be repeated."),
    ] = None,
    fresh: o.Fresh = False,
    time_limit: o.TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Analyze every combination of models, recipes, GPUs and lengths: each option takes several values.

    Answers are kept in the history as they come. Stopped and started again, a sweep does only what is missing.
    """
    from memorymark.render.grid import print_grid
    from memorymark.render.json import print_json
    from memorymark.render.sweep_progress import SweepProgress

    _require_forms(output or [])
    chosen = _engine(engine, address, workers, time_limit)
    with SweepProgress(quiet=quiet) as progress:
        grid = _run(file, given, chosen, progress, measure=measure, fresh=fresh)
    for path in output or []:
        write_output(path, _written(grid, path.suffix.lower()), "output")
    if as_json:
        print_json(grid.to_dict())
    else:
        print_grid(grid)
    if grid.failed:
        raise typer.Exit(1)


def _engine(name: EngineName, address: str | None, workers: int | None, time_limit: float) -> Engine:
    from memorymark.sweep.local import LocalEngine

    if name == "local":
        if address is not None:
            raise UsageError(
                Message("{address} is that of a Ray cluster; add {engine:ray}, or drop it."),
                code="not_applicable",
                field="address",
                given=address,
            )
        return LocalEngine(workers=workers, time_limit_seconds=time_limit)
    if workers is not None:
        raise UsageError(
            Message("{workers} is for this machine; a Ray cluster knows its CPUs. Drop it."),
            code="not_applicable",
            field="workers",
            given=workers,
        )
    from memorymark.sweep.on_ray import RayEngine

    return RayEngine(address, time_limit_seconds=time_limit)


def _run(
    file: Path | None, given: dict[str, Any], engine: Engine, progress: Any, *, measure: bool, fresh: bool
) -> Grid:
    from memorymark.history import Store, default_url
    from memorymark.sweep.plan import cases_of
    from memorymark.sweep.reading import of_flags
    from memorymark.sweep.running import Progress, Sweeping

    def show(at: Progress) -> None:
        progress.show(
            done=at.done,
            total=at.total,
            reused=at.reused,
            failed=at.failed,
            seconds_left=at.seconds_left,
            latest=at.latest,
        )

    try:
        cases = cases_of(file, of_flags(given), measure=measure, has_gpu=engine.measures_by_default)
        with closing(Store(default_url())) as store:
            source = file.name if file is not None else ""
            sweeping = Sweeping(cases, engine, store, source=source, fresh=fresh, on_progress=show)
            try:
                return sweeping.run()
            except KeyboardInterrupt:
                done = len(sweeping.grid.cases)
                raise InterruptionError(
                    f"stopped by Ctrl-C with {done} of {len(cases)} cases answered; they are in the history, and the "
                    "same command goes on from there."
                ) from None
    finally:
        engine.close()


def _require_forms(outputs: list[Path]) -> None:
    """Raises before anything runs if a file could not be written."""
    for path in outputs:
        if path.suffix.lower() not in FORMS:
            raise UsageError(
                f"{path} is none of the files that a sweep can write; end it in .html, .csv or .json.",
                code="malformed",
                field="output",
                given=path,
                allowed=list(FORMS),
            )
        require_folder(path, "output")


def _written(grid: Grid, form: str) -> str:
    if form == ".json":
        return json.dumps(grid.to_dict(), indent=2) + "\n"
    if form == ".csv":
        from memorymark.render.grid import grid_csv

        return grid_csv(grid)
    from memorymark.render.html import page

    return page(grid)

"""``memorymark watch``: runs a training script and reports what it wastes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from memorymark.cli.output_files import require_folder
from memorymark.errors import UsageError

# All arguments after the script's name belong to the script, as with Python itself.
SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def watch(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The script to run, or with -m the module.")],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's own arguments, passed on unchanged.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Write the report to this file as JSON, too.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="End with the report as one line of JSON on stderr, for programs.")
    ] = False,
) -> None:
    """Run a training script unchanged, and report what it wastes and what to change.

    The report is printed on stderr when the script ends, even by Ctrl-C or a crash. The exit code is the script's.
    """
    from memorymark.render.watch import print_watch_report
    from memorymark.watch.launch import run_watched
    from memorymark.watch.report import make_report

    _require_script(script, module=module)
    require_folder(save, "save")
    run = run_watched([*(["-m"] if module else []), script, *(args or [])])
    report = make_report(script if module else Path(script).name, run.observation, run.exit_code)
    document = json.dumps(report.to_dict())
    if save is not None:
        _save(save, document)
    sys.stdout.flush()
    if as_json:
        typer.echo(document, err=True)
    else:
        print_watch_report(report)
    raise typer.Exit(run.exit_code)


def _require_script(script: str, *, module: bool) -> None:
    if module or Path(script).exists():
        return
    if re.fullmatch(r"python[\d.]*", Path(script).name):
        raise UsageError(
            "leave `python` out: memorymark watch train.py, or memorymark watch -m package.module.",
            code="malformed",
            field="script",
            given=script,
        )
    dotted = f"; for a module, use memorymark watch -m {script}" if re.fullmatch(r"[\w.]+", script) else ""
    raise UsageError(
        f"there is no script {script!r} here; check the path{dotted}.",
        code="not_readable",
        field="script",
        given=script,
    )


def _save(path: Path, document: str) -> None:
    try:
        path.write_text(document + "\n")
    except OSError as error:  # the script may have run for days, so the report is still printed
        typer.echo(f"Not saved: {error}", err=True)

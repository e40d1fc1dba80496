"""The command line: registers the commands and reports errors."""

from __future__ import annotations

import io
import json
import os
import sys
from errno import ENOSPC
from typing import Annotated, Any

import typer

from memorymark.cli.advise import advise
from memorymark.cli.analyze import analyze
from memorymark.cli.bare_flags import Command
from memorymark.cli.calibrate import calibrate
from memorymark.cli.doctor import doctor
from memorymark.cli.explain import explain
from memorymark.cli.fleet import fleet
from memorymark.cli.gpus import gpus
from memorymark.cli.history import compare, history
from memorymark.cli.matrix import matrix
from memorymark.cli.measure import measure
from memorymark.cli.models import models
from memorymark.cli.parsing_errors import as_usage_error
from memorymark.cli.predict import predict
from memorymark.cli.profiles import profiles
from memorymark.cli.report import report
from memorymark.cli.serve import serve
from memorymark.cli.suggested import suggested_commands
from memorymark.cli.sweep import sweep
from memorymark.cli.validate import app as validate_app
from memorymark.cli.watch import SETTINGS as WATCH_SETTINGS
from memorymark.cli.watch import watch
from memorymark.errors import MemoryMarkError
from memorymark.render.plain import clean, one_line
from memorymark.sweep.mistakes import SweepRefusedError
from memorymark.version import __version__

# The error for a command line that cannot be parsed; its module depends on the version of typer.
CommandLineError: type[Any] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="memorymark",
    help="Finds the GPU memory that training wastes, proves it and hands over the fix.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help takes half the time and does not truncate option names
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (analyze, advise, explain, matrix, measure, predict, sweep):
    app.command(cls=Command)(command)
app.command(context_settings=WATCH_SETTINGS)(watch)
app.add_typer(validate_app, name="validate")
for command in (calibrate, profiles, fleet, models, gpus, doctor, history, compare, report, serve):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memorymark {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Finds the GPU memory that training wastes, proves it and hands over the fix."""


def main() -> None:
    """Runs the command line; an error is one sentence on stderr, or with --json a document on stdout."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # so that terminals without the bars' characters still show the report
    as_json = "--json" in sys.argv
    try:
        try:
            sys.exit(app(standalone_mode=not as_json, prog_name="memorymark"))
        finally:
            if sys.stdout is not None:  # it may be closed
                sys.stdout.flush()  # not when Python ends, when a full disk could no longer be reported
    except MemoryMarkError as error:
        _report(error, as_json=as_json)
        sys.exit(error.exit_code)
    except CommandLineError as error:
        _report(as_usage_error(error, sys.argv[1:]), as_json=as_json)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest could not be written either
        full = MemoryMarkError("the disk is full; make room and look for the answer with `memorymark history`.")
        _report(full, as_json=False)
        sys.exit(1)


def _report(error: MemoryMarkError, *, as_json: bool) -> None:
    document = error.to_dict("command_line", with_detail=True)
    if as_json:
        told = {name: value for name, value in document.items() if name not in ("message", "hint", "detail")}
        trials = [trial.to_dict() for trial in error.trials]
        typer.echo(json.dumps({"status": "error", "kind": "error", **told, "trials": trials}, indent=2))
        return
    said = [document["error"]]
    if isinstance(error, SweepRefusedError):
        said = [error.headline, *(f"  {line}" for line in error.lines)]
    colour = None if os.environ.get("NO_COLOR") else "red"
    for line, before in zip(said, ("Error: ", *[""] * len(said)), strict=False):
        typer.secho(f"{before}{' ' * (len(line) - len(line.lstrip()))}{one_line(line).strip()}", err=True, fg=colour)
    commands = suggested_commands(typer.main.get_command(app), sys.argv[1:], error.suggestions or ())
    if commands:
        typer.echo(clean(commands), err=True)

"""The command line: which commands there are, and what happens to an error."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from memorymark.commands.analyze import analyze
from memorymark.commands.doctor import doctor
from memorymark.commands.gpus import gpus
from memorymark.commands.measure import measure
from memorymark.commands.models import models
from memorymark.commands.validate import app as validate_app
from memorymark.errors import MemoryMarkError
from memorymark.version import __version__

app = typer.Typer(
    name="memorymark",
    help="Finds the GPU memory that training wastes, proves it and hands over the fix.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (analyze, measure):
    app.command()(command)
app.add_typer(validate_app, name="validate")
for command in (models, gpus, doctor):
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
    """Runs the command line; an error is one sentence on stderr, or JSON on stdout, and its exit code."""
    try:
        app()
    except MemoryMarkError as error:
        if "--json" in sys.argv:
            trials = [trial.to_dict() for trial in error.trials]
            typer.echo(json.dumps({"status": "error", "error": str(error), "trials": trials}, indent=2))
        else:
            color = None if os.environ.get("NO_COLOR") else "red"
            typer.secho(f"Error: {error}", err=True, fg=color)
        sys.exit(error.exit_code)

"""The command line: which commands there are, and what happens to an error."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from errno import ENOSPC
from typing import Annotated, Any

import typer

from memorymark.commands.advise import advise
from memorymark.commands.analyze import analyze
from memorymark.commands.doctor import doctor
from memorymark.commands.gpus import gpus
from memorymark.commands.history import compare, history
from memorymark.commands.measure import measure
from memorymark.commands.models import models
from memorymark.commands.predict import predict
from memorymark.commands.report import report
from memorymark.commands.serve import serve
from memorymark.commands.suggested import suggested_commands
from memorymark.commands.validate import app as validate_app
from memorymark.commands.watch import SETTINGS as WATCH_SETTINGS
from memorymark.commands.watch import watch
from memorymark.errors import DoesNotFitError, MemoryMarkError
from memorymark.render.plain import one_line
from memorymark.version import __version__

# What a command line that cannot be parsed raises; the module it lives in depends on the version of typer.
CommandLineError: type[Any] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="memorymark",
    help="Finds the GPU memory that training wastes, proves it and hands over the fix.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help comes in half the time and cuts no option name short
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (analyze, advise, measure, predict):
    app.command()(command)
app.command(context_settings=WATCH_SETTINGS)(watch)
app.add_typer(validate_app, name="validate")
for command in (models, gpus, doctor, history, compare, report, serve):
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
            stream.reconfigure(errors="replace")  # a terminal without the bars' characters still gets the report
    as_json = "--json" in sys.argv
    try:
        try:
            sys.exit(app(standalone_mode=not as_json, prog_name="memorymark"))
        finally:
            if sys.stdout is not None:  # it may be closed
                sys.stdout.flush()  # here, and not when Python ends, where nobody can be told that the disk is full
    except MemoryMarkError as error:
        found = error.suggestions if isinstance(error, DoesNotFitError) else None
        suggestions = {} if found is None else {"suggestions": [one.to_dict() for one in found]}
        trials = [trial.to_dict() for trial in error.trials]
        _report(str(error), as_json=as_json, trials=trials, **suggestions)
        if found and not as_json:
            typer.echo(suggested_commands(sys.argv[1:], found), err=True)
        sys.exit(error.exit_code)
    except CommandLineError as error:
        _report(error.format_message(), as_json=as_json)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write has no place either
        _report("the disk is full; make room and look for the answer with `memorymark history`.", as_json=False)
        sys.exit(1)


def _report(sentence: str, *, as_json: bool, trials: Sequence[dict[str, Any]] = (), **more: Any) -> None:
    if as_json:
        typer.echo(json.dumps({"status": "error", "error": sentence, "trials": trials, **more}, indent=2))
    else:
        typer.secho(one_line(f"Error: {sentence}"), err=True, fg=None if os.environ.get("NO_COLOR") else "red")

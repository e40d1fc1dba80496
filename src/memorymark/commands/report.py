"""``memorymark report``: a result as a page to keep or send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memorymark.commands import options as o
from memorymark.commands.history import Database, open_history, result_of
from memorymark.errors import UsageError


def report(
    job: Annotated[
        str, typer.Argument(metavar="JOB|FILE", help="A job of the history, or a file with what analyze --json gave.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    database: Database = "",
    as_json: o.Json = False,
) -> None:
    """Write a past analysis as an HTML page that needs nothing else: no scripts, no network."""
    from memorymark.render.json import print_json

    page = _of_file(Path(job)) if Path(job).is_file() else _of_job(job, database)
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}; name another file with --output.") from None
    if as_json:
        print_json({"report": str(output)})
    else:
        typer.echo(str(output))


def _of_job(job: str, database: str) -> str:
    from memorymark.render.html import page

    if job.endswith(".json"):
        raise UsageError(f"there is no file {job}; write one with `memorymark analyze ... --json > {job}`.")
    return page(result_of(open_history(database).find(job)))


def _of_file(path: Path) -> str:
    from memorymark.render.html import page
    from memorymark.result import result_from_dict

    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and isinstance(document.get("result"), dict):
            document = document["result"]  # a job, as `memorymark history JOB --json` gives it
        return page(result_from_dict(document))
    except (OSError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise UsageError(
            f"{path} is no analysis; give a file that `memorymark analyze ... --json` or `history JOB --json` wrote."
        ) from None

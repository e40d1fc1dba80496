"""``memorymark report``: a result as a file to keep or send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memorymark.commands import options as o
from memorymark.commands.history import Database, open_history, result_of
from memorymark.errors import UsageError
from memorymark.result import Result

FORMS = (".html", ".htm", ".csv", ".json")


def report(
    job: Annotated[
        str, typer.Argument(metavar="JOB|FILE", help="A job of the history, or a file with what analyze --json gave.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write; its ending says what: .html, .csv or .json.")
    ] = Path("report.html"),
    database: Database = "",
    as_json: o.Json = False,
) -> None:
    """Write a past analysis as an HTML page that needs nothing else, its trials as CSV, or all of it as JSON."""
    from memorymark.render.json import print_json
    from memorymark.render.plain import one_line

    _require_writable(output, job)
    result = _of_file(Path(job)) if Path(job).is_file() else _of_job(job, database)
    try:
        output.write_text(_written(result, output.suffix.lower()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}; name another file with --output.") from None
    if as_json:
        print_json({"report": str(output)})
    else:
        typer.echo(one_line(str(output)))


def _require_writable(output: Path, job: str) -> None:
    """Refuses what would be written in another form than its name says, or over what it is made of."""
    if output.suffix.lower() not in FORMS:
        what = f"ends in {output.suffix}" if output.suffix else "has no ending"
        raise UsageError(
            f"{output} {what}, and a report is a page (.html), the trials as a table (.csv) or a document (.json); "
            "name the file so."
        )
    if output.exists() and Path(job).is_file() and output.samefile(job):
        raise UsageError(f"{output} is the file that the report is of; name another with --output.")


def _written(result: Result, form: str) -> str:
    if form == ".csv":
        from memorymark.render.csv import as_csv

        return as_csv(result)
    if form == ".json":
        return json.dumps(result.to_dict(), indent=2) + "\n"
    from memorymark.render.html import page

    return page(result)


def _of_job(job: str, database: str) -> Result:
    if job.endswith(".json"):
        raise UsageError(f"there is no file {job}; write one with `memorymark analyze ... --json > {job}`.")
    return result_of(open_history(database).find(job))


def _of_file(path: Path) -> Result:
    from memorymark.render.html import page
    from memorymark.result import result_from_dict

    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and isinstance(document.get("result"), dict):
            document = document["result"]  # a job, as `memorymark history JOB --json` gives it
        result = result_from_dict(document)
        page(result)  # what is damaged deep inside shows only where all of it is used
    except (OSError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise UsageError(
            f"{path} is no analysis; give a file that `memorymark analyze ... --json` or `history JOB --json` wrote."
        ) from None
    return result

"""``memorymark report``: writes a result as a file to keep or send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memorymark.cli import options as o
from memorymark.cli.history import Database, open_history, result_of
from memorymark.cli.output_files import write_output
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.results.analysis import Analysis
from memorymark.results.result import Result

FORMS = (".html", ".htm", ".csv", ".json", ".svg")
PICTURE = ".svg"


def report(
    job: Annotated[
        str, typer.Argument(metavar="JOB|FILE", help="A job of the history, or a file that analyze --json wrote.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write; its ending sets the format: .html, .csv, .json or .svg."
        ),
    ] = Path("report.html"),
    database: Database = "",
    as_json: o.Json = False,
    badge: Annotated[
        bool, typer.Option("--badge", help="With an .svg file: a badge for a README instead of a card to share.")
    ] = False,
) -> None:
    """Write a past analysis as a self-contained HTML page, its trials as CSV, all of it as JSON, or a card as SVG."""
    from memorymark.render.json import print_json
    from memorymark.render.plain import one_line

    _require_writable(output, job)
    if badge and output.suffix.lower() != PICTURE:
        raise UsageError(
            Message("{badge} is a picture; name a file that ends in .svg with {output}."),
            code="conflict",
            field="badge",
            given=True,
        )
    result = _of_file(Path(job)) if Path(job).is_file() else _of_job(job, database)
    write_output(output, _written(result, output.suffix.lower(), badge=badge), "output")
    if as_json:
        print_json({"kind": "report", "report": str(output)})
    else:
        typer.echo(one_line(str(output)))


def _require_writable(output: Path, job: str) -> None:
    """Raises if the output's ending is unknown, or if it would overwrite its source."""
    if output.suffix.lower() not in FORMS:
        what = f"ends in {output.suffix}" if output.suffix else "has no ending"
        raise UsageError(
            f"{output} {what}, and a report is a page (.html), the trials as a table (.csv), a document (.json) or "
            "a card to share (.svg); use one of these endings.",
            code="malformed",
            field="output",
            given=output,
            allowed=list(FORMS),
        )
    if output.exists() and Path(job).is_file() and output.samefile(job):
        raise UsageError(
            Message("{file} is the source of the report; name another file with {output}.", file=output),
            code="conflict",
            field="output",
            given=output,
        )


def _written(result: Result, form: str, *, badge: bool = False) -> str:
    if form == PICTURE:
        return _picture(result, badge=badge)
    if form == ".csv":
        from memorymark.render.csv import as_csv

        return as_csv(result)
    if form == ".json":
        return json.dumps(result.to_dict(), indent=2) + "\n"
    from memorymark.render.html import page

    return page(result)


def _picture(result: Result, *, badge: bool) -> str:
    from memorymark.render import html

    if not isinstance(result, Analysis):
        raise UsageError(
            Message("a card is of one analysis on one GPU; write this as a page (.html) with {output}."),
            code="not_applicable",
            field="output",
        )
    return html.badge(result) if badge else html.card(result)


def _of_job(job: str, database: str) -> Result:
    if job.endswith(".json"):
        raise UsageError(
            f"there is no file {job}; write one with `memorymark analyze ... --json > {job}`.",
            code="not_readable",
            field="job",
            given=job,
        )
    return result_of(open_history(database).find(job))


def _of_file(path: Path) -> Result:
    from memorymark.render.html import page
    from memorymark.results.old_documents import with_kind
    from memorymark.results.result import result_from_dict

    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and isinstance(document.get("result"), dict):
            document = document["result"]  # a job, as `memorymark history JOB --json` prints it
        result = result_from_dict(with_kind(document))
        page(result)  # using all of it finds damage deep inside
    except (OSError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise UsageError(
            f"{path} is not an analysis; give a file from `memorymark analyze ... --json` or `history JOB --json`.",
            code="malformed",
            field="job",
            given=path,
        ) from None
    return result

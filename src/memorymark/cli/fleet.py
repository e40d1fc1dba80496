"""``memorymark fleet``: says which jobs waste GPU time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from memorymark.cli import options as o
from memorymark.cli.output_files import write_output
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.events import StageStarted
from memorymark.question.flat import OPTIONS

PROMETHEUS_VARIABLE = "MEMORYMARK_PROMETHEUS"
TOKEN_VARIABLE = "MEMORYMARK_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable, not a token
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DEFAULT_SINCE = "1h"
# Less is too short to judge a job, more is beyond what servers keep.
SHORTEST_SECONDS, LONGEST_SECONDS = 900.0, 366.0 * 86400
COMMAND_SECONDS = 120
NOW = "now"

Server = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        metavar="URL",
        envvar=PROMETHEUS_VARIABLE,
        show_envvar=True,
        help="Ask this Prometheus server, which scrapes DCGM exporters.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help=f"How far back to ask Prometheus: 90m, 24h, 7d. {DEFAULT_SINCE} by default."
    ),
]
Slurm = Annotated[
    str | None,
    typer.Option("--slurm", metavar="FILE|-|now", help="What squeue --json printed, or now to run it: names jobs."),
]
Jobstats = Annotated[
    str | None,
    typer.Option(
        "--jobstats",
        metavar="FILE|-|now",
        help="What sacct -P printed with AdminComment, or now to run it for --since.",
    ),
]
Price = Annotated[
    float | None,
    typer.Option("--price-per-hour", help="What an hour of any of these GPUs costs, in dollars; else the catalog's."),
]
Top = Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="Only the N jobs that waste most.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page to this file, too.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the jobs as a table to this file, too.")]
Metrics = Annotated[
    Path | None,
    typer.Option("--metrics", metavar="FILE", help="Write metrics to this file, too, for the textfile collector."),
]


def fleet(
    prometheus: Server = None,
    since: Since = None,
    slurm: Slurm = None,
    jobstats: Jobstats = None,
    price_per_hour: Price = None,
    top: Top = None,
    html: Html = None,
    csv: Csv = None,
    metrics: Metrics = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Rank jobs by the GPU time they waste: on this host, in Prometheus, in Slurm's accounting.

    Reads only. A name and a password in the URL, or a token in MEMORYMARK_PROMETHEUS_TOKEN, are sent to that server.
    """
    from memorymark.fleet.sources.prometheus_api import Prometheus
    from memorymark.fleet.survey import Inquiry, survey
    from memorymark.render.fleet import print_fleet
    from memorymark.render.fleet_files import as_csv, as_metrics, as_page
    from memorymark.render.json import print_json
    from memorymark.render.progress import Progress

    seconds = _seconds(since, prometheus, jobstats)
    if slurm == jobstats == "-":
        raise UsageError(
            "only one of --slurm and --jobstats can be read from stdin.", code="conflict", field="jobstats"
        )
    if price_per_hour is not None:
        OPTIONS["price_per_hour"].check(price_per_hour)
    with Progress(quiet=quiet) as progress:
        inquiry = Inquiry(
            prometheus=Prometheus(prometheus, os.environ.get(TOKEN_VARIABLE)) if prometheus else None,
            seconds=seconds,
            squeue=_text(slurm, "slurm", ("squeue", "--json")),
            sacct=_text(jobstats, "jobstats", _sacct(seconds)),
            price_per_hour=price_per_hour,
            top=top,
        )
        found = survey(inquiry, lambda what: progress.on_event(StageStarted("start", what)))
    for path, make, option in ((html, as_page, "html"), (csv, as_csv, "csv"), (metrics, as_metrics, "metrics")):
        if path is not None:
            write_output(path, make(found), option, at_once=option == "metrics")
    if as_json:
        print_json(found.to_dict())
    else:
        print_fleet(found)


def _seconds(since: str | None, prometheus: str | None, jobstats: str | None) -> float:
    """Returns the time of ``--since`` in seconds."""
    if since is not None and prometheus is None and jobstats != NOW:
        raise UsageError(
            "--since is for --prometheus and --jobstats now; the GPUs of this host keep no past.",
            code="not_applicable",
            field="since",
            given=since,
        )
    text = DEFAULT_SINCE if since is None else since
    read = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if read is None:
        raise UsageError(
            f"--since takes a time such as 90m, 24h or 7d, not {text!r}.", code="malformed", field="since", given=text
        )
    seconds = float(read[1]) * UNIT_SECONDS[read[2]]
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise UsageError(
            f"--since is a time from 15m, or jobs cannot be judged, to 366d, not {text}.",
            code="out_of_range",
            field="since",
            given=text,
            allowed={"minimum": SHORTEST_SECONDS, "maximum": LONGEST_SECONDS},
        )
    return seconds


def _sacct(seconds: float) -> tuple[str, ...]:
    from memorymark.fleet.sources.jobstats import FIELDS

    return ("sacct", "-a", "-X", "-P", "-S", f"now-{seconds / 60:.0f}minutes", "-o", ",".join(FIELDS))


def _text(source: str | None, option: str, command: tuple[str, ...]) -> str | None:
    """Returns what a file holds, what stdin brings, or what a command prints."""
    if source is None:
        return None
    if source == NOW:
        return _printed(command, option)
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise UsageError(
            f"{source} cannot be read: {why}; give --{option} a file, - or now.",
            code="not_readable",
            field=option,
            given=source,
        ) from None


def _printed(command: tuple[str, ...], option: str) -> str:
    """Returns what one of Slurm's commands prints; both only read."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)  # noqa: S603
    except FileNotFoundError:
        raise UsageError(
            f"there is no {command[0]} here; run it where Slurm is, and give --{option} the file.",
            code="not_installed",
            field=option,
            given=NOW,
        ) from None
    except subprocess.TimeoutExpired:
        raise MemoryMarkError(f"{command[0]} gave no answer in {COMMAND_SECONDS} s; try again.") from None
    except (subprocess.CalledProcessError, OSError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise MemoryMarkError(f"{command[0]} failed; run it to see why.", detail=said.strip()) from None
    return done.stdout

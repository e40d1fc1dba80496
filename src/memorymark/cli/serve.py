"""``memorymark serve``: runs the service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memorymark.client import DEFAULT_PORT
from memorymark.errors import UsageError

if TYPE_CHECKING:
    from memorymark.server.serve import Service
    from memorymark.server.settings import Settings


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 takes a free one.", min=0, max=65535)] = DEFAULT_PORT,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", envvar="MEMORYMARK_TOKEN", help="The token that callers must send; best set with the variable."
        ),
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--open-to-all", help="Listen on other addresses without a token.")
    ] = False,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", help="A site whose pages may call the service; can be repeated.")
    ] = None,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Let callers name files and functions on this machine, and run their code."),
    ] = False,
    database: Annotated[
        str, typer.Option("--database", help="The URL of the history's database; defaults to a file of yours.")
    ] = "",
    queue_size: Annotated[int, typer.Option("--queue-size", help="The most jobs that may wait.")] = 1000,
    prediction_workers: Annotated[
        int | None, typer.Option("--prediction-workers", help="Predictions at a time; depends on the CPUs by default.")
    ] = None,
    worker_memory_gib: Annotated[
        float | None,
        typer.Option("--worker-memory-gib", help="Memory a worker may use; depends on the host's by default."),
    ] = None,
    job_seconds: Annotated[float, typer.Option("--job-seconds", help="The most seconds a job may take.")] = 600.0,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="Play this recording instead of answering; history JOB --record writes one."),
    ] = None,
    replay_speed: Annotated[
        float, typer.Option("--replay-speed", help="How many times as fast as it happened to play the recording.")
    ] = 1.0,
    engine: Annotated[
        Literal["local", "ray"], typer.Option("--engine", help="Where workers run: here, or on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="The Ray cluster's address; defaults to the one of this node.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log problems only.")] = False,
) -> None:
    """Serve the dashboard and the HTTP interface from this machine, until Ctrl-C.

    Logs are JSON lines on stderr.
    """
    import logging

    _require_service()
    from memorymark.server.logs import log_to_stderr
    from memorymark.server.serve import serve as run
    from memorymark.server.settings import Settings

    chosen = {} if prediction_workers is None else {"prediction_workers": prediction_workers}
    settings = Settings(
        host=host,
        port=port,
        database=database,
        token=token,
        open_to_all=open_to_all,
        origins=tuple(origin or ()),
        allow_code=allow_code,
        queue_size=queue_size,
        worker_memory_gib=worker_memory_gib,
        job_seconds=job_seconds,
        replay=replay,
        replay_speed=replay_speed,
        engine=engine,
        address=address,
        **chosen,
    )
    log_to_stderr(logging.WARNING if quiet else logging.INFO)
    if replay is None:
        typer.echo("starting a worker …", err=True)
    run(settings, lambda service: _announce(service, settings, open_browser=open_browser))


def _announce(service: Service, settings: Settings, *, open_browser: bool) -> None:
    """Says where the service answers, once it does."""
    from memorymark.render.plain import one_line

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{service.port}"
    does = "is ready" if settings.replay is None else f"plays {one_line(str(settings.replay))}"
    typer.echo(f"MemoryMark {does} at {url} · documentation at {url}/openapi/swagger · Ctrl-C ends it")
    if open_browser:
        import webbrowser

        webbrowser.open(url)


def _require_service() -> None:
    """Raises if the packages of the service, which are an extra, are not installed."""
    try:
        import memorymark.server.serve  # noqa: F401 - whether it can be imported
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "memorymark":
            raise
        raise UsageError(
            "the service is not installed here; run `pip install 'memorymark[server]'`.", code="not_installed"
        ) from None

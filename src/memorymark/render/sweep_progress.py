"""Shows on stderr how far a sweep is."""

from __future__ import annotations

from rich.markup import escape
from rich.status import Status

from memorymark.render.console import CleanConsole
from memorymark.render.grid import named
from memorymark.render.rates import hours_words
from memorymark.results.grid import GridCase
from memorymark.units import format_rate

SECONDS_PER_HOUR = 3600


class SweepProgress:
    """Writes a line for each case that ends; on a terminal, a spinner shows how much is left."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = CleanConsole(stderr=True, quiet=quiet)
        self._status: Status | None = None

    def __enter__(self) -> SweepProgress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(
        self, *, done: int, total: int, reused: int, failed: int, seconds_left: float | None, latest: GridCase | None
    ) -> None:
        """Shows the case that has just ended, and what is left."""
        left = "" if seconds_left is None or done == total else f", about {left_words(seconds_left)} left"
        counts = f"{done} of {total} cases{f', {failed} failed' if failed else ''}{left}"
        if self._console.is_terminal:
            self._status = self._status or Status("", console=self._console)
            self._status.update(f"{counts} …")
            self._status.start()
        if latest is None:
            known = f", {reused} already in the history" if reused else ""
            self._console.print(f"[bold]{total} cases{known}[/bold]", soft_wrap=True)
            return
        self._console.print(f"[dim]{counts}[/dim]  {_ended(latest)}", soft_wrap=True)


def _ended(case: GridCase) -> str:
    name = escape(named(case))
    if case.fits:
        speed = f", {format_rate(case.samples_per_second)} samples/s" if case.samples_per_second else ""
        return f"[green]✓[/green] {name}: batch {case.batch_size}{speed}"
    return f"[red]✗[/red] {name}: [dim]{escape(case.error or '')}[/dim]"


def left_words(seconds: float) -> str:
    """Returns a remaining time: ``40 s``, ``12 min``, ``5.2 h``."""
    if seconds < 100:
        return f"{max(round(seconds), 1)} s"
    if seconds < 100 * 60:
        return f"{round(seconds / 60)} min"
    return hours_words(seconds / SECONDS_PER_HOUR)

"""Shows progress on stderr."""

from __future__ import annotations

import time

from rich.markup import escape
from rich.status import Status

from memorymark.events import Event, StageStarted
from memorymark.render.console import CleanConsole
from memorymark.render.rates import rate, unit_of
from memorymark.results.trial import Trial
from memorymark.units import format_bytes, format_rate


class Progress:
    """Writes a line for each stage and trial; on a terminal, a spinner shows the stage under way."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = CleanConsole(stderr=True, quiet=quiet)
        self._status: Status | None = None
        self._start = time.perf_counter()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._status is not None:
            self._status.stop()

    def on_event(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, StageStarted):
            if self._console.is_terminal:
                self._status = self._status or Status("", console=self._console)
                self._status.update(f"{escape(event.message)} …")
                self._status.start()
            self._line(f"[bold]{escape(event.message)}[/bold]")
        else:
            self._line(_describe(event.trial))

    def _line(self, text: str) -> None:
        self._console.print(f"[dim]{time.perf_counter() - self._start:6.1f} s[/dim]  {text}", soft_wrap=True)


def _describe(trial: Trial) -> str:
    mark = "[green]✓[/green]" if trial.fits else "[red]✗[/red]"
    words = [f"{mark} batch {trial.batch_size:<6}"]
    if trial.fits:
        words.append(f"{format_bytes(trial.device_bytes):>12}")
        if trial.samples_per_second:
            words.append(f"{format_rate(rate(trial)):>10} {unit_of([trial])}")
        if trial.allocator_retries:
            words.append(f"[yellow]{trial.allocator_retries} allocator retries[/yellow]")
    elif trial.failure is not None:
        words.append(f"[dim]{escape(trial.failure.message)}[/dim]")
    return "  ".join(words)

"""Prints profiles of GPUs, on stdout."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorymark.profiles.stored import ListedProfile, ProfileList
from memorymark.render.console import CleanConsole


def print_profiles(found: ProfileList, console: Console | None = None) -> None:
    """Prints the list of profiles."""
    console = console or CleanConsole()
    table = Table("name", "GPU", "date", "torch", "operations", "used", box=None, pad_edge=False, header_style="bold")
    for one in found.profiles:
        used = "by itself" if one.automatic else f"--profile {one.name}"
        table.add_row(one.name, one.gpu_name, one.date, one.torch, str(one.operations), used)
    console.print(table)
    console.print(
        Text(f"Your own are in {found.folder}; `memorymark calibrate` writes one.", style="dim"), soft_wrap=True
    )


def print_calibration(profile: ListedProfile, *, failed: int, waited_for_host: int, seconds: float) -> None:
    """Prints what was calibrated, where it lies and how to use it."""
    console = CleanConsole()
    left_out = [
        f"{count} {why}"
        for count, why in ((failed, "could not run here"), (waited_for_host, "were too short to count"))
        if count
    ]
    beside = f" ({', '.join(left_out)})" if left_out else ""
    console.print(f"Timed {profile.operations} operations of the {profile.gpu_name} in {seconds:.0f} s{beside}.")
    console.print(Text(f"Wrote {profile.file}"), soft_wrap=True)
    if profile.automatic:
        console.print(f"Predictions for {profile.gpu_id} use it from now on; elsewhere, copy the file there.")
    console.print(Text(f"Use it with: --gpu {profile.gpu_id} --profile {profile.file}"), soft_wrap=True)

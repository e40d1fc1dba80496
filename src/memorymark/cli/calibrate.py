"""``memorymark calibrate``: times this machine's GPU, so that predictions for it are better."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from memorymark.cli import options as o
from memorymark.documents import INLINE, Document
from memorymark.profiles.profile import Profile
from memorymark.profiles.stored import ListedProfile


@dataclass(frozen=True, kw_only=True)
class Calibration(Document):
    """The profile that was written."""

    kind: ClassVar[Literal["calibration"]] = "calibration"

    profile: ListedProfile = field(metadata=INLINE)
    failed: int
    """How many operations could not run on this GPU."""
    waited_for_host: int
    """How many were too short to tell the GPU's time from the host's, and do not count."""
    seconds: float
    """How long it took."""


def calibrate(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; defaults to your folder of profiles.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="The GPU: cuda, or cuda:N.", metavar="DEVICE")] = "cuda",
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Time this machine's GPU for about a minute, so that predictions for it are better here and elsewhere."""
    import time

    from memorymark.engine import calibrate as engine
    from memorymark.profiles.stored import describe
    from memorymark.render.json import print_json
    from memorymark.render.profiles import print_calibration
    from memorymark.render.progress import Progress

    started = time.monotonic()
    with Progress(quiet=quiet) as progress:
        profile, file = engine.calibrate(device, output, on_event=progress.on_event)
    told = Calibration(
        profile=describe(profile, file),
        failed=profile.failed,
        waited_for_host=_waited(profile),
        seconds=time.monotonic() - started,
    )
    if as_json:
        print_json(told.to_dict())
    else:
        print_calibration(told.profile, failed=told.failed, waited_for_host=told.waited_for_host, seconds=told.seconds)


def _waited(profile: Profile) -> int:
    return sum(one.waited_for_host for one in profile.operations)

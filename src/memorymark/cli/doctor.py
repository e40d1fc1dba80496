"""``memorymark doctor``: checks the installation."""

from __future__ import annotations

import typer

from memorymark.cli import options as o


def doctor(as_json: o.Json = False) -> None:
    """Check Python, torch, the driver and the GPUs, and say how to fix problems."""
    from memorymark.engine.doctor import Checkup, check_all
    from memorymark.render.json import print_json
    from memorymark.render.terminal import print_checks

    checks = check_all()
    if as_json:
        print_json(Checkup(checks).to_dict())
    else:
        print_checks(checks)
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)

"""``memorymark doctor``: what is here, what is wrong, what to do."""

from __future__ import annotations

from dataclasses import asdict

import typer

from memorymark.commands import options as o


def doctor(as_json: o.Json = False) -> None:
    """Check Python, torch, the driver and the GPUs, and say what to do about what is wrong."""
    from memorymark.checkup import check_all
    from memorymark.render.json import print_json
    from memorymark.render.terminal import print_checks

    checks = check_all()
    if as_json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        print_checks(checks)
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)

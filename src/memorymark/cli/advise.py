"""``memorymark advise``: finds what to change, ranked by gain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memorymark.cli import options as o
from memorymark.cli.asking import ask
from memorymark.cli.output_files import require_folder
from memorymark.errors import MemoryMarkError
from memorymark.question.flat import make_question
from memorymark.results.advice import Advice
from memorymark.results.code import Library


@o.takes_options(o.OF_ADVICE)
def advise(
    asked: dict[str, Any],
    run: o.Run,
    code: Annotated[Library, typer.Option("--code", help="The library to show code for.")] = "pytorch",
    script: Annotated[
        Path | None, typer.Option("--script", help="Write the advice as a runnable script.", metavar="FILE")
    ] = None,
    server: o.Server = None,
    fresh: o.Fresh = False,
    no_history: o.NoHistory = False,
) -> o.Answer:
    """Find what to change: recipes ranked by gain, with what each costs and code to paste.

    The other options say how you train today. All recipes are predicted; on a GPU, the best few are also run.
    """
    from memorymark.render.advice import print_advice
    from memorymark.render.tables import make_console

    require_folder(script, "script")
    question = make_question({**asked, "advise": True})
    result = ask(question, run, server=server, fresh=fresh, no_history=no_history)
    assert isinstance(result, Advice)  # noqa: S101 - that is what was asked for
    missing = _write(script, result) if script is not None else ""
    return o.Answer(
        result.to_dict(),
        lambda: print_advice(result, make_console(), code),
        exit_code=1 if missing else 0,
        complaint=missing,
    )


def _write(file: Path, advice: Advice) -> str:
    """Writes the advice as a script; returns why it could not, so that the report is still shown."""
    from memorymark.advice.training_script import script_for

    try:
        file.write_text(script_for(advice), encoding="utf-8")
    except MemoryMarkError as error:
        return f"No script: {error.said_in('command_line', with_detail=True)}"
    except OSError as error:
        return f"No script: {file} cannot be written ({error.strerror or error}); name another file."
    return ""

"""The command line, run in this process: the same code as in one of its own, but no second import of everything."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from memorymark.cli import main


def run_here(*arguments, **environment):
    """What a command prints and how it exits; stdout and stderr are what a pipe would be."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        patch.object(sys, "argv", ["memorymark", *arguments]),
        patch.dict(os.environ, {"COLUMNS": "200", **environment}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *said)

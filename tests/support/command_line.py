"""The command line, run in this process: the same code as in one of its own, but no second import of everything."""

import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import pytest

from memorymark.cli.main import main
from memorymark.devices import accelerator_kind

SMALL = ("bert", "--device", "cpu", "--seq-len", "8", "--memory-gib", "0.02")
needs_no_gpu = pytest.mark.skipif(accelerator_kind() is not None, reason="there is a GPU here")


def new_history():
    """A history that knows no answer yet: what is tested is worked out, and not what an earlier test worked out."""
    return f"sqlite:///{tempfile.mkdtemp(prefix='memorymark-tests-')}/history.db"


def run_here(*arguments, **environment):
    """What a command prints and how it exits; stdout and stderr are what a pipe would be."""
    environment = {"COLUMNS": "200", "MEMORYMARK_DATABASE": new_history(), **environment}
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        patch.object(sys, "argv", ["memorymark", *arguments]),
        patch.dict(os.environ, environment),
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


def run_apart(*arguments, command=("-m", "memorymark"), **environment):
    """The command in a process of its own."""
    environment = {**os.environ, "COLUMNS": "200", "MEMORYMARK_DATABASE": new_history(), **environment}
    return subprocess.run([sys.executable, *command, *arguments], capture_output=True, text=True, env=environment)


def document(result):
    """The one JSON document on stdout; NaN and Infinity are not JSON."""
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

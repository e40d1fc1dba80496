"""The command line as a whole: its options, its help, how it writes, and what the shell completes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import memorymark
from memorymark.cli.main import app
from memorymark.version import __version__
from support.command_line import SMALL, run_apart, run_here

REQUEST_OPTIONS = [
    "--accumulate", "--attention", "--audio-seconds", "--batch-size", "-b", "--channels-last", "--compile", "--device",
    "--allocator", "--completion-tokens", "--completions", "--eval-mode",
    "--full", "--fused", "--gpu", "--gpus", "--gradient-checkpointing", "--image-size", "--json", "--keep-outputs",
    "--lora", "--lora-targets", "--lora-variant", "--loss",
    "--mean-tokens", "--memory-gib", "--nodes", "--offload", "--optimizer", "--optimizer-in-backward",
    "--optimizer-variant", "--packed", "--precision", "--profile", "--quiet", "-q",
    "--reference", "--revision", "--seq-len", "--small", "--strategy", "--task", "--tensor-parallel",
    "--tf32", "--time-limit", "--trust-remote-code", "--weights",
]  # fmt: skip
MONEY_OPTIONS = [
    "--hours-per-run",
    "--people",
    "--price-per-hour",
    "--prices",
    "--runs-per-year",
    "--samples",
    "--tokens",
]
# Scripts depend on these names: what is missing here breaks somebody, what is new belongs into this list.
INTERFACE = {
    "": ["--install-completion", "--show-completion", "--version"],
    "analyze": [
        "MODEL", *REQUEST_OPTIONS, *MONEY_OPTIONS, "--all-gpus", "--every-gpu", "--fresh", "--margin", "--max-batch",
        "--no-history", "--server",
    ],
    "advise": [
        "MODEL", *REQUEST_OPTIONS, *MONEY_OPTIONS, "--code", "--fresh", "--margin", "--max-batch", "--no-history",
        "--no-try-compile", "--script", "--server", "--try-compile",
    ],
    "measure": ["MODEL", *REQUEST_OPTIONS],
    "predict": ["MODEL", *REQUEST_OPTIONS],
    "matrix": ["MODEL", *(name for name in REQUEST_OPTIONS if name not in ("--batch-size", "-b")), "--all-gpus",
               "--html", "--max-batch", "--svg"],
    "explain": ["MODEL", *REQUEST_OPTIONS, "--html", "--snapshot", "--svg"],
    "validate": [],
    "validate backward": ["MODEL", *REQUEST_OPTIONS],
    "validate compile": ["MODEL", *REQUEST_OPTIONS],
    "validate prediction": ["MODEL", *(name for name in REQUEST_OPTIONS if name not in ("--batch-size", "-b"))],
    "sweep": [
        "FILE", "--model", *REQUEST_OPTIONS, *MONEY_OPTIONS, "--address", "--engine", "--fresh", "--margin",
        "--max-batch", "--measure", "--output", "-o", "--workers",
    ],
    "watch": ["ARGS", "SCRIPT", "--json", "--save", "-m"],
    "fleet": [
        "--csv", "--html", "--jobstats", "--json", "--metrics", "--price-per-hour", "--prometheus", "--quiet",
        "--since", "--slurm", "--top", "-q",
    ],
    "calibrate": ["--device", "--json", "--output", "--quiet", "-o", "-q"],
    "profiles": ["--json"],
    "models": ["--json"],
    "gpus": ["--json"],
    "doctor": ["--json"],
    "history": ["JOB", "--database", "--json", "--limit", "--model", "--record"],
    "compare": ["JOBS", "--database", "--json"],
    "report": ["JOB", "--badge", "--database", "--json", "--output", "-o"],
    "serve": [
        "--address", "--allow-code", "--database", "--engine", "--host", "--job-seconds", "--open", "--open-to-all",
        "--origin", "--port", "--prediction-workers", "--queue-size", "--quiet", "--replay", "--replay-speed", "-q",
        "--token", "--worker-memory-gib",
    ],
}  # fmt: skip


def commands(command, path=""):
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}".strip())


def test_the_interface_is_what_it_was():
    found = {}
    for path, command in commands(typer.main.get_command(app)):
        names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
        found[path] = sorted(name if name.startswith("-") else name.upper() for name in names)

    assert found == {path: sorted(names) for path, names in INTERFACE.items()}


@pytest.mark.parametrize("path", INTERFACE)
def test_help_names_every_option(path):
    result = run_here(*path.split(), "--help")

    assert result.returncode == 0
    assert all(name in result.stdout for name in INTERFACE[path])


@pytest.mark.parametrize("command", ["", "analyze", "fleet", "sweep", "serve"])
def test_help_imports_no_torch(command):
    result = run_apart(*command.split(), "--help", command=("-X", "importtime", "-m", "memorymark"))

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert result.returncode == 0
    assert "memorymark" in imported
    assert imported.isdisjoint({"torch", "transformers", "numpy", "ray", "yaml"})


@pytest.mark.parametrize("arguments", [(), ("validate",)])
def test_without_a_command_the_help_is_shown(arguments):
    assert "Usage:" in "".join((run_here(*arguments).stdout, run_here(*arguments).stderr))


def test_version():
    assert run_here("--version").stdout == f"memorymark {__version__}\n"


def run_on_a_terminal(*arguments, **environment):
    """Everything a command writes to a terminal."""
    pty = pytest.importorskip("pty")
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "memorymark", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment)
    os.close(end)
    written = b""
    try:
        while chunk := os.read(terminal, 2**16):
            written += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    process.wait()
    os.close(terminal)
    return written.decode()


COLOR = re.compile(r"\x1b\[(\d+;)*(3\d|4\d|9\d)")


@pytest.mark.parametrize("arguments", [("doctor",), ("analyze", "brt")], ids=" ".join)
def test_a_terminal_gets_colors_unless_no_color_is_set(arguments, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert COLOR.search(run_on_a_terminal(*arguments))
    assert not COLOR.search(run_on_a_terminal(*arguments, NO_COLOR="1"))


def test_where_stdout_is_not_unicode_the_report_is_still_written():
    result = run_apart("doctor", PYTHONIOENCODING="ascii")

    assert result.returncode == 0
    assert "Traceback" not in result.stderr


AS_INSTALLED = ("-c", "import sys; from memorymark.cli.main import main; sys.argv[0] = 'memorymark'; main()")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("memorymark an", ["analyze"]),
        ("memorymark pre", ["predict"]),
        ("memorymark validate ", ["backward", "compile", "prediction"]),
        ("memorymark analyze be", ["bert", "bert-large"]),
        ("memorymark analyze bert --task ca", ["causal-lm"]),
        ("memorymark analyze bert --gpu a1", ["a10g", "a10", "a100-40gb", "a100-80gb"]),
        ("memorymark analyze bert --precision ", ["fp32", "bf16", "fp16"]),
        ("memorymark analyze bert --gradient", ["--gradient-checkpointing"]),
    ],
)
def test_the_shell_completes_commands_models_options_and_choices(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}

    result = run_apart(command=AS_INSTALLED, _MEMORYMARK_COMPLETE="complete_bash", **words)

    assert result.stdout.split() == offered


def test_the_completion_script_can_be_shown():
    result = run_apart(
        "--show-completion", "bash", command=AS_INSTALLED, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )

    assert result.returncode == 0
    assert "_MEMORYMARK_COMPLETE=complete_bash" in result.stdout


@pytest.mark.parametrize("name", ["random", "transformers"])
def test_a_file_in_the_working_directory_does_not_stand_in_for_a_library(name, tmp_path):
    work, scripts = tmp_path / "work", tmp_path / "scripts"
    work.mkdir()
    scripts.mkdir()
    (work / f"{name}.py").write_text("print('hi')\n")
    (scripts / "memorymark_script.py").write_text(AS_INSTALLED[1])
    source = str(Path(memorymark.__file__).parents[1])

    result = subprocess.run(
        [sys.executable, scripts / "memorymark_script.py", "measure", *SMALL, "-b", "1", "--json", "-q"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["fits"]

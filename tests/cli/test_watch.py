"""``memorymark watch`` on real scripts, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = Path(__file__).parents[1] / "watch" / "scripts"


def start(*arguments, cwd=None):
    return subprocess.Popen(
        [sys.executable, "-m", "memorymark", "watch", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160", "PYTHONPATH": os.pathsep.join([str(p) for p in PATHS])},
        start_new_session=True,
    )


PATHS = [Path(__file__).parents[2] / "src", WATCHED]


class Ended:
    def __init__(self, process, given=None):
        self.stdout, self.stderr = process.communicate(given, timeout=120)
        self.code = process.returncode

    @property
    def document(self):
        return json.loads(self.stderr.splitlines()[-1])


def run(*arguments, given=None, **options):
    return Ended(start(*arguments, **options), given)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The scripts that import torch, side by side."""
    folder = tmp_path_factory.mktemp("watched")
    started = {
        "starved": start("--save", folder / "starved.json", WATCHED / "plain.py", "--starve", "--lr", "3", "--json"),
        "spawned": start("--json", WATCHED / "plain.py", "--spawn"),
        "broken": start("--json", WATCHED / "plain.py", "--broken-sample"),
        "trainer": start("--json", WATCHED / "trainer.py", folder),
        "lightning": start("--json", WATCHED / "lightning_loop.py"),
    }
    killed = start("--json", WATCHED / "plain.py", "--wait")
    killed.stdout.readline()
    assert killed.stdout.readline() == "ready\n"
    os.kill(child_of(killed.pid), signal.SIGKILL)
    return {**{name: Ended(process) for name, process in started.items()}, "killed": Ended(killed), "folder": folder}


def child_of(parent):
    """The process that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def test_a_folder_for_the_report_that_is_not_there_is_said_before_the_script_runs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('ran')")

    ended = run("--save", tmp_path / "missing" / "report.json", script)

    assert ended.code == 2
    assert "there is no folder" in ended.stderr
    assert "ran" not in ended.stdout


def test_a_script_runs_as_python_runs_it(runs):
    ended = runs["starved"]
    assert ended.code == 0
    arguments = ["--starve", "--lr", "3", "--json"]
    assert ended.stdout == f"arguments {arguments} name __main__ path {WATCHED}\n"


def test_a_starved_script_is_told_so(runs):
    assert "You are bound by the data loader, a larger batch will not help." in runs["starved"].stderr
    document = json.loads((runs["folder"] / "starved.json").read_text())
    assert document["findings"][0]["kind"] == "data"
    assert document["lost"] > 0.5
    assert (document["steps"], document["batch_size"], document["micro_batches"]) == (15, 8, 1)


def test_workers_that_are_spawned_are_left_alone(runs):
    ended = runs["spawned"]
    assert ended.code == 0
    document = ended.document
    assert (document["steps"], document["samples"], document["problem"]) == (15, 120, None)
    assert document["loader"]["num_workers"] == 1
    assert document["model"]["name"] == "Sequential"
    assert [optimizer["name"] for optimizer in document["optimizers"]] == ["AdamW"]


def test_a_crash_keeps_its_traceback_and_exit_code_and_gets_a_report(runs):
    ended = runs["broken"]
    assert ended.code == 1
    traceback, _, document = ended.stderr.rstrip("\n").rpartition("\n")
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert traceback.endswith("ValueError: sample 100 is broken")
    assert "memorymark" not in traceback
    document = json.loads(document)
    assert (document["exit_code"], document["ending"]["kind"], document["steps"]) == (1, "ValueError", 12)


def test_a_script_that_is_killed_still_gets_its_report(runs):
    ended = runs["killed"]
    assert ended.code == 128 + signal.SIGKILL
    assert ended.document["steps"] >= 4
    assert ended.document["exit_code"] == 137


def test_transformers_trainer_is_understood_from_outside_and_by_the_callback(runs):
    ended = runs["trainer"]
    assert ended.code == 0, ended.stderr
    for document in (ended.document, json.loads(ended.stdout.splitlines()[-1])):
        assert (document["steps"], document["batch_size"], document["micro_batches"]) == (10, 4, 2)
        assert document["effective_batch_size"] == 8
        assert document["model"]["name"] == "BertForSequenceClassification"
        assert document["framework"] == "transformers"
        assert document["problem"] is None


def test_lightning_is_understood_from_outside_and_by_the_callback(runs):
    ended = runs["lightning"]
    assert ended.code == 0, ended.stderr
    printed = json.loads(ended.stdout.splitlines()[-1])
    whole, failed = printed["whole"], printed["failed"]
    assert (whole["steps"], whole["batch_size"], whole["micro_batches"]) == (8, 4, 3)
    assert whole["framework"] == "lightning"
    assert printed["error"] == "on purpose"
    assert (failed["steps"], failed["ending"]["kind"]) == (10, "ValueError")
    assert "MemoryMark watched Lightning" in ended.stderr
    assert ended.document["steps"] == 18


def test_a_script_without_torch_keeps_its_input_output_and_exit_code(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.stdin.read().upper())\nprint('mine', file=sys.stderr)\nsys.exit(3)\n")
    ended = run(script, given="hello")
    assert (ended.code, ended.stdout) == (3, "HELLO\n")
    assert ended.stderr.startswith("mine\n")
    assert "never imported torch" in ended.stderr


def test_a_script_that_first_asks_whether_there_is_a_torch_is_watched(tmp_path):
    """As the library datasets does when it is imported before torch."""
    script, saved = tmp_path / "asks.py", tmp_path / "report.json"
    script.write_text(
        "import importlib.util\n"
        "assert importlib.util.find_spec('torch') is not None\n"
        "import torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "for _ in range(5):\n"
        "    model(torch.ones(3, 2)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    command = [sys.executable, "-m", "memorymark", "watch", "--save", str(saved), str(script)]
    subprocess.run(command, check=True, capture_output=True)
    document = json.loads(saved.read_text())
    assert (document["steps"], document["batch_size"]) == (5, 3)


def test_a_module_runs_as_python_runs_it(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "work.py").write_text(
        "import os, sys\nprint(__name__, __spec__.name, sys.argv[1:], sys.path[0])\n"
        "print([name for name in os.environ if name.startswith('MEMORYMARK_WATCH')], os.environ['PYTHONPATH'])\n"
    )
    ended = run("-m", "package.work", "-m", "--save", "x", cwd=tmp_path)
    assert ended.code == 0
    first, second = ended.stdout.splitlines()
    assert first == f"__main__ package.work ['-m', '--save', 'x'] {tmp_path}"
    assert second == f"[] {os.pathsep.join(str(path) for path in PATHS)}"


def test_an_interrupt_ends_the_script_and_the_report_still_comes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = start(script)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    ended = Ended(process)
    assert ended.code == 128 + signal.SIGINT
    assert ended.stderr.count("KeyboardInterrupt") == 1
    assert "never imported torch" in ended.stderr


def test_an_interrupt_of_the_whole_group_reaches_the_script_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n    time.sleep(0.3)\n"
    )
    process = start(script)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    ended = Ended(process)
    assert (ended.code, ended.stdout) == (0, "interrupted\n")
    assert "KeyboardInterrupt" not in ended.stderr


def test_a_second_interrupt_while_the_last_is_written_shows_nothing_of_ours(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\nimport torch\nfrom memorymark.watch.detector import Detector\n"
        "Detector.ended = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    ended = run(script)
    assert ended.code == 0
    assert "KeyboardInterrupt" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_environments_own_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = 'here'\n")
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.mine)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PATHS[0])])}
    command = [sys.executable, "-m", "memorymark", "watch", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout) == (0, "here\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.py"], "there is no script 'nowhere.py' here"),
        (["python", "train.py"], "leave `python` out"),
    ],
)
def test_a_script_that_is_not_there_is_an_error_of_usage(arguments, sentence):
    ended = run(*arguments)
    assert ended.code == 2
    assert sentence in ended.stderr

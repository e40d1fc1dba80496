"""While a model is built from a config, nothing is opened and nobody called."""

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from memorymark.errors import UsageError
from memorymark.models.build_guard import only_building


@pytest.mark.parametrize(
    "operation",
    [
        "open(file)",
        "open(file, 'w')",
        "os.open(file, os.O_RDONLY)",
        "os.listdir(folder)",
        "os.remove(file)",
        "os.system('true')",
        "subprocess.run(['true'])",
        "socket.create_connection(('127.0.0.1', 9))",
        "ctypes.CDLL(file)",
    ],
)
def test_while_a_model_is_built_nothing_is_opened_and_nobody_called(tmp_path, operation):
    file = tmp_path / "secret"
    file.write_text("of the operator")
    names = {"os": os, "socket": socket, "subprocess": subprocess, "ctypes": ctypes}
    names |= {"file": str(file), "folder": str(tmp_path)}

    with only_building(), pytest.raises(UsageError, match="open a file or use the network"):
        eval(operation, names)

    assert file.read_text() == "of the operator"


READ_IN_A_THREAD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from memorymark.models.build_guard import guard_every_thread, only_building

guard_every_thread()
with only_building(), ThreadPoolExecutor(1) as threads:
    reading = threads.submit(Path(sys.argv[1]).read_text)
print(Path(sys.argv[1]).read_text())
print(reading.exception())
"""


def test_in_a_worker_the_threads_of_libraries_are_looked_at_too(tmp_path):
    (tmp_path / "secret").write_text("of the operator")

    said = subprocess.run(
        [sys.executable, "-c", READ_IN_A_THREAD, str(tmp_path / "secret")], capture_output=True, text=True, check=True
    ).stdout

    after, inside = said.splitlines()
    assert after == "of the operator"
    assert "open a file or use the network" in inside


def test_while_a_model_is_built_libraries_are_still_read():
    with only_building():
        assert "def " in Path(transformers.__file__).with_name("activations.py").read_text()

import os
import platform
import subprocess
import sys
from importlib.metadata import version

from memorymark.catalog import all_gpus
from memorymark.devices.machine import describe_machine, gpus_here, versions
from memorymark.version import __version__


def test_the_versions_are_those_that_are_installed():
    assert versions() == {
        "memorymark": __version__,
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def test_the_machine_is_this_one():
    machine = describe_machine()

    assert machine["host"] == platform.node()
    assert machine["system"] == f"{platform.system()} {platform.machine()}"
    assert machine["python"] == platform.python_version()
    assert machine["processors"] == os.cpu_count()
    assert bool(machine["gpus"]) == (machine["driver"] is not None)


def test_gpus_here_are_of_the_catalog_and_of_this_machine():
    assert gpus_here() <= {entry.id for entry in all_gpus()}
    assert len(gpus_here()) <= len(describe_machine()["gpus"])


def test_none_of_it_needs_torch():
    names = "describe_machine, versions"
    asked = f"from memorymark.devices.machine import {names}; describe_machine(), versions()"
    code = f"import sys; {asked}; print('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"

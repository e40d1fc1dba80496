"""The units of deploy/systemd, installed with the commands of docs/deployment.md and started by a real systemd."""

import json
import re
import subprocess
import sys
import sysconfig

import pytest

from support.booted import booted
from support.calls import QUICK, Caller
from support.page_commands import DOCS, ROOT, commands, run_commands
from support.processes import wait_until
from support.servers import free_port, moved, program

UNITS = ROOT / "deploy" / "systemd"
UNIT = "memorymark.service"
# In place of what the page installs into /opt/memorymark: the units hide homes, and a checkout may be in one.
PROGRAM = f"""#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/checkout/src:/opt/packages OMP_NUM_THREADS=1
exec /opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor} -m memorymark "$@"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folders of a host on which the page's commands were run, with a port of its own for the service."""
    host = tmp_path_factory.mktemp("host")
    (host / "etc" / "systemd" / "system").mkdir(parents=True)
    for heading in ("Settings and the token", "systemd"):
        run_commands(commands("deployment.md", heading)[0], {"/etc/": f"{host}/etc/"})
    (host / "memorymark").write_text(PROGRAM)
    (host / "memorymark").chmod(0o755)
    return host


@pytest.fixture(scope="module")
def settings(installed):
    """The file of settings, as it was installed but for the port."""
    file, port = installed / "etc" / "memorymark" / "memorymark.env", free_port()
    assert file.stat().st_mode & 0o777 == 0o600
    text = moved(file.read_text(), {"MEMORYMARK_OPTIONS=": f"MEMORYMARK_OPTIONS=--port {port} --prediction-workers 1"})
    file.write_text(text)
    return {"port": port, "token": re.search("^MEMORYMARK_TOKEN=(.{32})$", text, re.MULTILINE)[1]}


@pytest.fixture(scope="module")
def host(installed, settings):
    """The host, booted."""
    files = {
        "/etc/memorymark": installed / "etc" / "memorymark",
        **{f"/etc/systemd/system/{unit.name}": unit for unit in (installed / "etc/systemd/system").iterdir()},
        "/opt/memorymark/bin/memorymark": installed / "memorymark",
        "/opt/checkout": ROOT,
        "/opt/packages": sysconfig.get_path("purelib"),
        "/opt/python": sys.base_prefix,
    }
    with booted(UNIT, files, installed / "log") as host:
        yield host


def log_of(host):
    lines = host("journalctl", f"--unit={UNIT}", "--output=cat", "--no-pager").splitlines()
    return [json.loads(line)["message"] for line in lines if line.startswith("{")]


def answers(call):
    try:
        return call.get("/health").status == 200
    except ConnectionRefusedError:
        return False


def test_the_units_are_valid(tmp_path):
    for unit in UNITS.glob("*.timer"):
        (tmp_path / unit.name).write_text(unit.read_text())
    for unit in UNITS.glob("*.service"):  # the programs that they start are not installed here
        (tmp_path / unit.name).write_text(moved(unit.read_text(), {r"\nExecStart=\S+": "\nExecStart=/bin/true"}))
    command = [program("systemd-analyze", "systemd"), "verify", *map(str, tmp_path.iterdir())]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_page_says_how_exposed_the_service_is():
    command = [program("systemd-analyze", "systemd"), "security", "--offline=true", "--no-pager", str(UNITS / UNIT)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    level, word = re.search(r"Overall exposure level for \S+: (\S+) (\w+)", told).groups()

    assert f'{level}, "{word}"' in re.sub(r"\s+", " ", (DOCS / "deployment.md").read_text())


def test_the_service_answers_and_its_workers_are_sealed(host, settings):
    call = Caller(settings["port"], Authorization=f"Bearer {settings['token']}")
    wait_until(lambda: answers(call))
    answer = call.post("/analyze", QUICK)

    assert (answer.status, answer.json["data"]["model_name"]) == (200, "bert")
    assert call.get("/jobs", Authorization="Bearer wrong-wrong-wrong").status == 401
    [confined] = [message for message in log_of(host) if "confined" in message]
    assert re.search("new_privileges none, network none, files landlock", confined)


def test_only_the_service_and_root_can_read_the_history(host):
    owner = host("systemctl", "show", "--value", "--property=UID", UNIT)

    assert int(owner) > 1000
    assert host("stat", "--format=%a %u", "/var/lib/private/memorymark") == f"700 {owner}"
    assert host("stat", "--format=%a %u", "/var/lib/memorymark/history.db") == f"600 {owner}"


def test_it_stops_when_asked_and_is_restarted_when_killed(host):
    host("systemctl", "stop", UNIT)
    assert (host.shown(UNIT, "Result"), host.shown(UNIT, "ExecMainStatus")) == ("success", "0")

    host("systemctl", "start", UNIT)
    host("systemctl", "kill", "--signal=KILL", UNIT)
    wait_until(lambda: host.shown(UNIT, "NRestarts") == "1")


def test_a_wrong_option_is_not_tried_again(host, installed, settings):
    host("systemctl", "stop", UNIT)
    file = installed / "etc" / "memorymark" / "memorymark.env"
    file.write_text(moved(file.read_text(), {"--port [0-9]+": "--port 99999"}))
    host("systemctl", "start", UNIT)

    wait_until(lambda: host.shown(UNIT, "ActiveState") == "failed")
    assert host.shown(UNIT, "ExecMainStatus") == "2"
    assert host.shown(UNIT, "NRestarts") == "0"

"""The timer that writes metrics of waste, installed with the commands of docs/deployment.md."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support.command_line import run_here
from support.page_commands import ROOT, commands, run_commands
from support.servers import moved, program

SACCT = Path(__file__).parents[1] / "data" / "fleet" / "sacct.txt"
METRICS = "/var/lib/prometheus/node-exporter/memorymark.prom"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A folder that stands for the root of a host, on which the commands were run."""
    host = tmp_path_factory.mktemp("host")
    for folder in ("etc/systemd/system", "var/lib/prometheus"):
        (host / folder).mkdir(parents=True)
    [block] = commands("deployment.md", "Metrics of waste")
    run_commands(
        block.replace(" --owner=prometheus --group=prometheus", ""),
        {"/etc/": f"{host}/etc/", "/var/": f"{host}/var/"},
    )
    return host


@pytest.fixture(scope="module")
def service(host):
    return (host / "etc" / "systemd" / "system" / "memorymark-fleet.service").read_text()


def test_only_root_reads_the_settings_and_the_collector_reads_the_metrics(host, service):
    assert (host / "etc" / "memorymark" / "fleet.env").stat().st_mode & 0o777 == 0o600
    assert (host / "var" / "lib" / "prometheus" / "node-exporter").is_dir()
    assert re.search(r"^UMask=0022$", service, re.MULTILINE)
    assert re.search(rf"^ReadWritePaths={Path(METRICS).parent}$", service, re.MULTILINE)


def test_the_units_are_valid(host, tmp_path, service):
    """Each with the other, as systemd finds them."""
    installed = host / "etc" / "systemd" / "system"
    (tmp_path / "memorymark-fleet.service").write_text(moved(service, {r"\nExecStart=\S+": "\nExecStart=/bin/true"}))
    (tmp_path / "memorymark-fleet.timer").write_text((installed / "memorymark-fleet.timer").read_text())
    command = [program("systemd-analyze", "systemd"), "verify", *map(str, tmp_path.iterdir())]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


def test_its_command_writes_the_metrics(host, service):
    """As it stands, but for where the metrics go and what is asked."""
    file = f"{host}{METRICS}"
    command = re.search(r"^ExecStart=/opt/memorymark/bin/memorymark (.*)$", service, re.MULTILINE)[1]
    options = re.search(r"^MEMORYMARK_FLEET_OPTIONS=(.*)$", (host / "etc/memorymark/fleet.env").read_text(), re.M)[1]
    words = command.replace(METRICS, file).replace("$MEMORYMARK_FLEET_OPTIONS", options.replace("--since 24h", ""))

    ran = run_here(*shlex.split(words), "--jobstats", str(SACCT))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert 'verdict="idle"' in Path(file).read_text()
    assert Path(file).stat().st_mode & 0o044 == 0o044


def test_it_runs_where_the_pages_install_memorymark():
    page = (ROOT / "docs" / "deployment.md").read_text()

    assert "/opt/memorymark/bin/pip install" in page

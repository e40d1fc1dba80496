"""Monitoring: what deploy/prometheus and deploy/grafana ask for is what a service tells, asked by a real Prometheus."""

import json
import re
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest

from support.calls import QUICK, TOKEN, Caller
from support.processes import wait_until
from support.servers import free_port, moved, program, started
from support.service import serving

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "memorymark.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]]
# What Grafana puts in.
VARIABLES = {r"\$instance": ".+", r"\$__rate_interval": "1m"}


@pytest.fixture(scope="module")
def watched(service):
    """A caller of a service with a token, of which everything there is to count has happened."""
    with serving(service.jobs, token=TOKEN) as call:
        authorized = Caller(call.port, Authorization=f"Bearer {TOKEN}")
        for _ in range(2):
            assert authorized.post("/analyze", QUICK).status == 200
        yield authorized


@pytest.fixture(scope="module")
def ask(watched, tmp_path_factory):
    """Asks a real Prometheus that scrapes the service as deploy/prometheus says."""
    binary, folder, port = program("prometheus", "prometheus"), tmp_path_factory.mktemp("prometheus"), free_port()
    (folder / "token").write_text(TOKEN)
    (folder / "alerts.yml").write_text((DEPLOY / "prometheus" / "alerts.yml").read_text())
    places = {
        r"scheme: https": "scheme: http",
        r"targets: \[memorymark\.example\.org\]": f"targets: ['127.0.0.1:{watched.port}']",
        r"/etc/prometheus/memorymark-token": str(folder / "token"),
        r"(\w+_interval): 15s": r"\1: 1s",
    }
    settings = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    (folder / "prometheus.yml").write_text(moved(settings, places))
    command = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with started([*command, f"--web.listen-address=127.0.0.1:{port}"], port, folder / "log"):
        call = Caller(port)
        wait_until(lambda: call.get("/-/ready").status == 200)
        yield lambda path, **query: answer_of(call.get(f"/api/v1/{path}?{urlencode(query)}"))


def answer_of(answer):
    assert (answer.status, answer.json["status"]) == (200, "success"), answer.body
    return answer.json["data"]


def promtool(*arguments):
    done = subprocess.run([program("promtool", "prometheus"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_is_valid():
    promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml"))


def test_each_alert_fires_when_it_should_and_not_before():
    cases = Path(__file__).parent / "alert_cases.yml"
    rules = (DEPLOY / "prometheus" / "alerts.yml").read_text()

    assert [name for name in re.findall(r"alert: (\w+)", rules) if name not in cases.read_text()] == []
    promtool("test", "rules", str(cases))


@pytest.mark.parametrize("file", ["prometheus/alerts.yml", "grafana/memorymark.json"])
def test_every_metric_that_is_asked_for_is_told(file, watched):
    told = watched.get("/metrics").body.decode()
    asked = set(re.findall(r"\bmemorymark_\w+", (DEPLOY / file).read_text()))

    assert len(asked) >= 4
    assert [name for name in asked if not re.search(rf"^{name}[ {{]", told, re.MULTILINE)] == []


def test_a_real_prometheus_reads_the_metrics_and_the_alerts(ask):
    wait_until(lambda: ask("query", query='up{job="memorymark"} == 1')["result"])

    [healthy] = ask("query", query="memorymark_healthy")["result"]
    [done] = ask("query", query='sum(memorymark_jobs_total{state="done"})')["result"]
    [group] = ask("rules")["groups"]
    assert healthy["value"][1] == "1"
    assert int(done["value"][1]) >= 1
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_each_panel_shows_something(ask, title, query):
    for variable, value in VARIABLES.items():
        query = re.sub(variable, value, query)

    wait_until(lambda: ask("query", query=query)["result"])

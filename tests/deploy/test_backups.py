"""Histories of both kinds: set up, backed up, upgraded and restored with the commands of docs/deployment.md."""

import os
import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from memorymark.history import Store
from memorymark.history.migrations.runner import MIGRATIONS
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.lock import only_server
from memorymark.server.serve import running
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from support.calls import QUICK, Caller
from support.databases import POSTGRES_FOLDERS
from support.old_histories import JOB, make_old_history
from support.page_commands import commands, run_commands
from support.servers import program
from support.service import serving

PAGE = "deployment.md"
BEFORE, LATEST = list(MIGRATIONS)[-2:]


@dataclass(frozen=True)
class Kept:
    """A history on a host of its own, whose folders are below ``host``."""

    url: str
    heading: str
    host: Path
    environment: dict

    def run(self, block):
        folders = {folder: f"{self.host}{folder}" for folder in ("/var/lib", "/var/backups", "/etc")}
        return run_commands(block, folders, self.environment)

    def back_up(self):
        return self.run(commands(PAGE, self.heading)[0])

    def restore(self):
        return self.run(commands(PAGE, self.heading)[1])

    def revision(self):
        engine = create_engine(self.url)
        with engine.connect() as connection:
            found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        engine.dispose()
        return found


@pytest.fixture
def host(tmp_path):
    """The folders that an installed service has."""
    for folder in ("var/lib/memorymark", "var/backups", "etc/memorymark"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def on_sqlite(host):
    program("sqlite3", "sqlite3")
    yield Kept(f"sqlite:///{host}/var/lib/memorymark/history.db", "SQLite", host, dict(os.environ))


@pytest.fixture
def on_postgresql(host, postgres):
    server = make_url(postgres)
    path = os.pathsep.join([*map(str, POSTGRES_FOLDERS), os.environ["PATH"]])
    access = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.username, "PGDATABASE": "postgres"}
    kept = Kept("", "PostgreSQL dump", host, {**os.environ, **access, "PATH": path})
    [set_up] = commands(PAGE, "PostgreSQL")
    kept.run(set_up)
    settings = (host / "etc" / "memorymark" / "memorymark.env").read_text()
    [url] = re.findall("^MEMORYMARK_DATABASE=(.*)$", settings, re.MULTILINE)
    yield Kept(url.replace("@127.0.0.1/", f"@127.0.0.1:{server.port}/"), kept.heading, host, kept.environment)
    kept.run("dropdb --force memorymark; dropuser memorymark")


@pytest.fixture(params=["on_sqlite", "on_postgresql"])
def kept(request):
    return request.getfixturevalue(request.param)


@contextmanager
def service_on(url):
    """A service without workers: it takes jobs, keeps them and lists them."""
    with closing(Store(url)) as store, only_server(store):
        jobs = Jobs(store, [Lane("prediction-0", WarmWorkers(reuse=True))], queue_size=10, max_seconds=60.0)
        with serving(jobs) as call:
            yield call
        jobs.stop()


def listed(call):
    return [job["id"] for job in call.get("/jobs").json["jobs"]]


def test_a_backup_of_a_running_service_is_restored(kept):
    with service_on(kept.url) as call:
        first = call.submit(QUICK)
        said = kept.back_up()
        second = call.submit(QUICK, fresh=True)
        assert listed(call) == [second, first]
    restored = kept.restore()

    assert "ok" in said or kept.heading != "SQLite"
    assert restored.split("\n")[0] == "systemctl stop memorymark"
    with service_on(kept.url) as call:
        assert listed(call) == [first]
        assert call.job(first)["question"]["request"]["model"] == "bert"


def test_an_upgrade_keeps_the_jobs_and_the_backup_leads_back(kept):
    make_old_history(kept.url, BEFORE)
    kept.back_up()
    with service_on(kept.url) as call:
        assert (listed(call), kept.revision()) == ([JOB["id"]], LATEST)
    kept.restore()

    assert kept.revision() == BEFORE
    with service_on(kept.url) as call:
        assert listed(call) == [JOB["id"]]


def test_a_whole_service_works_on_postgresql_and_its_answers_outlive_it(on_postgresql):
    with running(Settings(port=0, database=on_postgresql.url, prediction_workers=1)) as service:
        call = Caller(service.port)
        job_id = call.submit(QUICK)
        job = call.finished(job_id)
        assert call.health()["status"] == "healthy"
    on_postgresql.back_up()
    on_postgresql.restore()

    with service_on(on_postgresql.url) as call:
        again = call.post("/jobs", QUICK)
        assert (again.status, again.json["reused"], again.json["job"]["id"]) == (200, True, job_id)
        assert again.json["job"]["result"] == job["result"]
        assert call.events(job_id)[-1]["event"] == "result"

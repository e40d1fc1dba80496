"""Fixtures: databases of each kind, empty. SQLAlchemy is imported only where it is used, as in ``support.service``."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

# Where Debian keeps it; elsewhere it is on the path.
POSTGRES_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@pytest.fixture
def public_folder():
    """A folder that other users can get to; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server of our own, on a port of this machine."""
    pytest.importorskip("psycopg")
    found = shutil.which("initdb", path=os.pathsep.join([*map(str, POSTGRES_FOLDERS), os.environ["PATH"]]))
    if found is None:
        pytest.skip("there is no PostgreSQL server here")
    with tempfile.TemporaryDirectory() as home:
        yield from serve_postgres(Path(found).parent, Path(home))


def serve_postgres(folder, home):
    owner = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to be started by root
        owner = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(home, "nobody", "nogroup")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data, quiet = home / "data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home}
    initdb = [folder / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(initdb, check=True, **quiet, **owner)
    control = [folder / "pg_ctl", "-D", data, "-w", "-l", home / "log"]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    subprocess.run([*control, "-o", options, "start"], check=True, **quiet, **owner)
    try:
        yield f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, **quiet, **owner)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request, tmp_path):
    """Makes empty databases, as many as wanted; once of each kind."""
    from sqlalchemy import create_engine, text

    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path}/history-{os.urandom(4).hex()}.db"
        return
    server, made = request.getfixturevalue("postgres"), []
    engine = create_engine(server, isolation_level="AUTOCOMMIT")

    def make():
        made.append(f"test_{os.urandom(4).hex()}")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made[-1]}"))
        return f"{server.rpartition('/')[0]}/{made[-1]}"

    yield make
    with engine.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def url(new_url):
    """An empty database, once of each kind."""
    return new_url()


@pytest.fixture
def open_store(url):
    """Opens the database, as often as wanted."""
    from memorymark.history import Store

    opened = []

    def open_it():
        opened.append(Store(url))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()

import os
import subprocess
import sys
from contextlib import ExitStack, closing
from functools import cache

import pytest

from memorymark.history import Store
from memorymark.history.listed_sweep import SweepCase
from support.documentation import ROOT
from support.faults import server_on
from support.grids import case


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built as ``make docs`` builds it, where a warning is an error."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Starts ``memorymark serve`` when it is first asked for; it serves all pages."""
    with ExitStack() as running:

        @cache
        def serve():
            history = tmp_path_factory.mktemp("served") / "history.db"
            call = running.enter_context(server_on(history, "--prediction-workers", "1"))
            with closing(Store(f"sqlite:///{history}")) as store:  # the sweep of the examples
                store.sweeps.begin("9b8632e56eb9", "sweep.yaml", (), [SweepCase(case=case(1, 10.0), is_answered=True)])
            return call

        yield serve

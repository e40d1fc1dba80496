import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import memorymark as mm
import support
from memorymark.errors import WorkerLostError
from memorymark.worker.remote import RemoteProbe
from memorymark.worker.supervisor import KeptWorkers
from support.forked_workers import fresh_workers
from support.processes import PATIENCE_SECONDS, SeenWorkers, is_running, wait_until

MODEL = f"{Path(support.__file__).with_name('tiny.py')}:tiny"
REQUEST = mm.Request(model=MODEL, target=mm.Target(device="cpu", memory_cap_bytes=64 * 2**20))
WELL_BEHAVED, PRINTS, CRASHES, SEGFAULTS, EXITS, STUMBLES, LEAKS, HANGS = 2, 3, 5, 6, 7, 8, 9, 10

# Python runs this when it starts, and so does every worker: it makes the model misbehave at some sizes.
MISBEHAVIOUR = f"""
import os, signal, sys, threading

if any("memorymark.worker.child" in argument for argument in sys.orig_argv):
    def leave_word():
        with open(os.environ["TEST_WORD"], "w") as file:
            file.write(f"{{os.getpid()}}\\n")

    if os.environ.get("TEST_STOPS_AT_START"):
        leave_word()
        os.kill(os.getpid(), signal.SIGSTOP)

    import torch
    from memorymark.devices.tracked import TrackedDevice

    TrackedDevice.layout = lambda self: []  # as a GPU has one: trials are recorded, and there are forecasts
    leaked = []

    def misbehave(module, args, kwargs, output):
        size = len(kwargs["labels"]) if "labels" in kwargs else 0
        if size == {PRINTS}:
            print('{{"result": "from a print"}}')
            os.write(1, b'{{"result": "from C"}}\\n')
            os.system("echo '{{}}'")
        elif size == {CRASHES}:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\\nand a second line")
        elif size == {SEGFAULTS}:
            os.kill(os.getpid(), signal.SIGSEGV)
        elif size == {EXITS}:
            sys.exit("these were its last words")
        elif size == {STUMBLES}:
            raise RuntimeError("shapes do not match.")
        elif size == {LEAKS}:
            leaked.append(output)
            raise torch.OutOfMemoryError("CUDA out of memory")
        elif size == {HANGS} or (size and os.environ.get("TEST_ALWAYS_HANGS")):
            leave_word()
            threading.Event().wait()

    torch.nn.modules.module.register_module_forward_hook(misbehave, with_kwargs=True)
"""


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared():
    """None: here it is about workers that come and go."""


@pytest.fixture(scope="module", autouse=True)
def misbehaviour(tmp_path_factory):
    folder = tmp_path_factory.mktemp("misbehaviour")
    (folder / "sitecustomize.py").write_text(MISBEHAVIOUR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture(scope="module")
def workers():
    return SeenWorkers()


@pytest.fixture(scope="module")
def probe(workers):
    """Shared: it starts a new worker by itself after each one that it lost."""
    with ExitStack() as stack:
        with fresh_workers():
            probe = stack.enter_context(RemoteProbe(REQUEST, workers=workers))
        yield probe


@pytest.fixture
def word(tmp_path, monkeypatch):
    """The file in which a hanging worker leaves its process id; a worker that is still there at the end is killed."""
    path = tmp_path / "word"
    monkeypatch.setenv("TEST_WORD", str(path))
    yield path
    if path.exists() and is_running(int(path.read_text())):
        os.kill(int(path.read_text()), signal.SIGKILL)


def pid_in(word):
    wait_until(lambda: word.exists() and word.read_text().endswith("\n"))
    return int(word.read_text())


@contextmanager
def python(code, **environment):
    """A Python that hears Ctrl-C even if these tests run in the background; killed at the end, whatever happens."""
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_a_model_prints_is_no_answer_and_reaches_nobody(probe, capfd):
    first, second = probe.try_batch(PRINTS), probe.try_batch(WELL_BEHAVED)

    assert (first.batch_size, first.fits) == (PRINTS, True)
    assert (second.batch_size, second.fits) == (WELL_BEHAVED, True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("workers_are_fresh")
@pytest.mark.parametrize(
    ("size", "said"),
    [
        (
            CRASHES,
            r"crashed: RuntimeError: CUDA error: an illegal memory access was .* \(site.*, line \d+\)\.$",
        ),
        (SEGFAULTS, r"the worker ended by signal SIGSEGV"),
        (EXITS, r"the worker ended with exit code 1: these were its last words\.$"),
    ],
    ids=["crashes", "segfaults", "exits"],
)
def test_a_worker_that_fails_is_gone_and_the_next_trial_gets_another(probe, workers, size, said):
    probe.try_batch(WELL_BEHAVED)
    lost = workers.pids[-1]

    with pytest.raises(mm.WorkerError, match=said):
        probe.try_batch(size)

    assert not is_running(lost)
    assert probe.try_batch(WELL_BEHAVED).fits
    assert workers.pids[-1] != lost


def test_a_worker_with_memory_left_behind_is_replaced(probe, workers):
    probe.try_batch(WELL_BEHAVED)
    unclean = workers.pids[-1]

    trial = probe.try_batch(LEAKS)

    assert (trial.fits, trial.failure.kind) == (False, "memory")
    assert not is_running(unclean)
    assert probe.try_batch(WELL_BEHAVED).fits
    assert workers.pids[-1] != unclean


def test_a_worker_guides_the_search():
    with RemoteProbe(REQUEST) as probe:
        probe.try_batch(2)
        assert (probe.forecast(), probe.second_batch()) == (None, 4)

        probe.try_batch(4)
        assert probe.forecast() > 4
        assert probe.second_batch() is None


def test_a_clean_worker_is_kept(probe, workers):
    probe.try_batch(WELL_BEHAVED)
    pid = workers.pids[-1]

    assert not probe.try_batch(100_000).fits
    probe.measure(WELL_BEHAVED)

    assert workers.pids[-1] == pid
    assert is_running(pid)


@pytest.mark.usefixtures("workers_are_fresh")
def test_a_worker_killed_in_a_trial_is_an_error_that_says_so(word):
    workers = SeenWorkers()
    with RemoteProbe(REQUEST, workers=workers) as probe:
        killer = threading.Thread(target=lambda: os.kill(pid_in(word), signal.SIGKILL))
        killer.start()
        with pytest.raises(mm.WorkerError, match=r"the worker was killed \(signal 9\), most likely because the host"):
            probe.try_batch(HANGS)
        killer.join()

    assert not any(map(is_running, workers.pids))


@pytest.mark.usefixtures("workers_are_fresh")
def test_a_worker_that_does_not_answer_is_stopped(word, monkeypatch):
    monkeypatch.setenv("TEST_STOPS_AT_START", "1")

    with pytest.raises(mm.WorkerError, match="did not answer within 3 s and was stopped; raise time_limit="):
        RemoteProbe(REQUEST, time_limit_seconds=3).__enter__()

    assert not is_running(pid_in(word))


def test_a_worker_whose_parent_was_killed_ends_by_itself(word):
    code = (
        "from memorymark.worker.remote import RemoteProbe; import memorymark as mm\n"
        f"with RemoteProbe(mm.Request.from_dict({REQUEST.to_dict()!r})) as probe: probe.try_batch({HANGS})"
    )
    with python(code) as parent:
        worker = pid_in(word)
        assert is_running(worker)

        parent.kill()

        wait_until(lambda: not is_running(worker))


API = f"import memorymark as mm; mm.analyze(mm.Request.from_dict({REQUEST.to_dict()!r}))"
START = f"sys.argv[1:] = ['analyze', {MODEL!r}, '--device', 'cpu']"
COMMAND = f"import sys; from memorymark.cli.main import main; {START}; main()"


@pytest.mark.parametrize(
    ("code", "last_words"), [(API, "KeyboardInterrupt"), (COMMAND, "stopped by Ctrl-C")], ids=["api", "command"]
)
def test_ctrl_c_leaves_no_worker_behind(code, last_words, word):
    with python(code, TEST_ALWAYS_HANGS="1") as caller:
        worker = pid_in(word)
        assert is_running(worker)

        caller.send_signal(signal.SIGINT)
        _, errors = caller.communicate(timeout=PATIENCE_SECONDS)

    assert caller.returncode not in (0, -signal.SIGKILL)
    assert not is_running(worker)
    assert ("Traceback" in errors) == (code is API)
    assert last_words in errors


def test_ctrl_c_loses_no_trial(word):
    options = [MODEL, "--device", "cpu", "--max-batch", str(HANGS), "--json", "--no-history"]
    code = f"import sys; from memorymark.cli.main import main; sys.argv[1:] = ['analyze', *{options!r}]; main()"
    with python(code) as caller:
        pid_in(word)
        caller.send_signal(signal.SIGINT)
        said, _ = caller.communicate(timeout=PATIENCE_SECONDS)

    document = json.loads(said)
    assert caller.returncode == 130
    assert document["error"] == "stopped by Ctrl-C before there was an answer."
    assert [trial["batch_size"] for trial in document["trials"]] == [2, 4]


def test_a_kept_worker_serves_again_until_it_is_closed_and_a_dead_one_is_replaced():
    class Stub:
        def __init__(self):
            self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

        @property
        def is_fit(self):
            return self.process.poll() is None

    class Somewhere:
        def __init__(self):
            self.returned = []

        def take(self):
            return Stub()

        def give_back(self, worker):
            self.returned.append(worker)

    somewhere = Somewhere()
    kept = KeptWorkers(somewhere)
    first = kept.take()
    kept.give_back(first)
    again = kept.take()
    first.process.communicate()
    other = kept.take()
    kept.close()
    other.process.communicate()

    assert again is first
    assert other is not first
    assert somewhere.returned == [first, other]


def test_workers_that_were_ended_are_not_replaced():
    kept = KeptWorkers()
    kept.end()
    with pytest.raises(WorkerLostError, match="stopped"):
        kept.take()


def test_the_size_of_images_is_to_blame_until_the_model_has_run_and_unless_it_is_the_gpu():
    images = mm.Request(model="resnet", small=True, image_size=32, target=mm.Target(device="cpu"))
    blamed = r"^choose another image_size=; resnet cannot .* 32 x 32 pixels: RuntimeError: shapes do not match\.$"

    with closing(KeptWorkers()) as workers, RemoteProbe(images, workers=workers) as probe:
        with pytest.raises(mm.UsageError, match=blamed):
            probe.try_batch(STUMBLES)
        with pytest.raises(mm.WorkerError, match="crashed: RuntimeError: CUDA error"):
            probe.try_batch(CRASHES)
        assert probe.try_batch(WELL_BEHAVED).fits
        with pytest.raises(mm.WorkerError, match="crashed: RuntimeError: shapes do not match"):
            probe.try_batch(STUMBLES)


def test_after_the_with_block_the_worker_is_gone():
    workers = SeenWorkers()
    with RemoteProbe(REQUEST, workers=workers):
        assert is_running(*workers.pids)

    assert not is_running(*workers.pids)

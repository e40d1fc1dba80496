"""A calibration: what is kept, and what happens to it if workers or the time run out. Real kernels need a GPU."""

import json
from datetime import datetime, timezone

import pytest

from memorymark.calibration.plan import planned_cases
from memorymark.engine import calibrate as engine
from memorymark.errors import UsageError, WorkerError, WorkerLostError
from memorymark.profiles.profile import read_profile
from memorymark.profiles.stored import find_profile, profiles_for
from support.profiles import SHIPPED

FACTS = {"gpu_id": "a10", "gpu_name": "NVIDIA A10", "driver": "580.65", "torch": "2.13.0", "cuda": "13.0"}
HOST = {"host": None, "to_device_bytes_per_second": 2e10, "to_host_bytes_per_second": 2e10}
TIMES = {json.dumps(one.case, sort_keys=True): one for one in SHIPPED.operations}


class Recorded:
    """Workers that answer with what was recorded on an H200; they are lost at some cases and cannot run others."""

    def __init__(self, *, lost_at=(), failing=()):
        self.lost_at, self.failing = [json.dumps(case, sort_keys=True) for case in lost_at], failing
        self.taken = self.timed = 0

    def take(self):
        self.taken += 1
        return self

    def give_back(self, worker):
        assert worker is self

    def kill(self):
        """Nothing is left of it."""

    def call(self, name, arguments, _):
        if name == "calibrate":
            return FACTS
        if name == "calibrate_host":
            return HOST
        names = [json.dumps(case, sort_keys=True) for case in arguments["cases"]]
        if any(name in self.lost_at for name in names):
            raise WorkerLostError("the worker ended by signal SIGABRT.")
        self.timed += len(names)
        return {
            "timed": [
                None if case in self.failing else TIMES[one].to_dict()
                for case, one in zip(arguments["cases"], names, strict=True)
            ]
        }


@pytest.fixture(autouse=True)
def gpu_here(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "lacks_accelerator", lambda: False)
    monkeypatch.setenv("MEMORYMARK_PROFILES", str(tmp_path / "own"))


def test_everything_planned_becomes_a_profile_that_is_used_from_then_on(tmp_path):
    heard = []
    profile, file = engine.calibrate(workers=Recorded(), on_event=heard.append)

    assert file == tmp_path / "own" / "a10.json"
    assert find_profile("a10") == profile == read_profile(file)
    assert list(profiles_for(None, "a10")) == ["a10"]
    assert [one.case for one in profile.operations] == planned_cases()
    assert (profile.gpu_name, profile.origin, profile.failed) == ("NVIDIA A10", "timed", 0)
    assert (profile.host, profile.to_host_bytes_per_second) == (None, 2e10)
    assert profile.date == datetime.now(timezone.utc).date().isoformat()
    assert [one.name for one in file.parent.iterdir()] == ["a10.json"]
    assert heard[0].message == "starting a worker"
    assert heard[-1].message == "timed 600 of 607 operations"


def test_a_file_of_ones_choice_is_written_and_nothing_is_installed(tmp_path):
    _, file = engine.calibrate("cuda", tmp_path / "mine.json", workers=Recorded())

    assert file == tmp_path / "mine.json"
    assert profiles_for(None, "a10") == {}


def test_what_this_gpu_cannot_run_is_counted():
    failing = planned_cases()[3:6]
    profile, _ = engine.calibrate(workers=Recorded(failing=failing))

    assert profile.failed == 3
    assert not [one for one in profile.operations if one.case in failing]


def test_a_case_that_ends_the_worker_costs_only_its_neighbours():
    workers = Recorded(lost_at=[planned_cases()[40]])
    profile, _ = engine.calibrate(workers=workers)

    assert workers.taken == 2
    assert profile.failed == engine.AT_ONCE
    assert len(profile.operations) == len(planned_cases()) - engine.AT_ONCE


def test_a_gpu_that_ends_every_worker_is_given_up_and_what_was_timed_is_kept(tmp_path):
    with pytest.raises(WorkerError, match="only 0 operations could be timed") as caught:
        engine.calibrate(workers=Recorded(lost_at=planned_cases()))

    assert caught.value.exit_code == 1
    assert (tmp_path / "own" / ".a10.journal").exists()


def test_a_run_that_was_ended_goes_on_where_it_was(tmp_path):
    class Interrupted(Recorded):
        def call(self, name, arguments, limit):
            if self.timed >= 80:
                raise KeyboardInterrupt
            return super().call(name, arguments, limit)

    with pytest.raises(KeyboardInterrupt):
        engine.calibrate(workers=Interrupted())
    with (tmp_path / "own" / ".a10.journal").open("a") as journal:
        journal.write('\n{"case": {"ki')  # it was ended while it wrote
    again = Recorded()
    profile, _ = engine.calibrate(workers=again)

    assert again.timed == len(planned_cases()) - 80
    assert len(profile.operations) == len(planned_cases())


def test_what_another_driver_left_is_timed_again(monkeypatch, tmp_path):
    with pytest.raises(WorkerError):
        engine.calibrate(workers=Recorded(lost_at=planned_cases()[10:]))
    monkeypatch.setitem(FACTS, "driver", "590.00")
    workers = Recorded()
    profile, _ = engine.calibrate(workers=workers)

    assert workers.timed == len(planned_cases())
    assert profile.driver == "590.00"


def test_when_the_time_is_up_what_was_timed_is_the_profile(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(engine.time, "monotonic", lambda: float(next(clock)))
    profile, _ = engine.calibrate(workers=Recorded(), seconds=20.0)

    assert engine.FEWEST <= len(profile.operations) < len(planned_cases()) / 2
    assert len({one.case["kind"] for one in profile.operations}) >= 4


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_timed(tmp_path):
    (tmp_path / "file").write_text("")
    workers = Recorded()

    with pytest.raises(UsageError, match="cannot be written"):
        engine.calibrate("cuda", tmp_path / "file" / "a10.json", workers=workers)

    assert workers.timed == 0

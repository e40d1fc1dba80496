"""What is kept in memory of the sweeps that people watch."""

from contextlib import closing

from memorymark.history import Store
from memorymark.history.listed_sweep import SweepCase
from memorymark.server.watched_sweeps import MOST_KEPT, WatchedSweeps
from support.grids import case


def begin(store, count, sweep_id="abc"):
    cases = [SweepCase(case=case(number), is_answered=False) for number in range(1, count + 1)]
    store.sweeps.begin(sweep_id, "", (), cases)


def shown(watched, store, after=0, sweep_id="abc"):
    view = watched.view(store.sweeps.find(sweep_id), after=after, limit=100)
    return {one.case.number: one.state for one in view.cases}


def test_a_history_that_is_replaced_by_a_shorter_one_is_read_anew(tmp_path):
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    with closing(Store(f"sqlite:///{after}")) as other:
        begin(other, 1)
        other.sweeps.ended("abc", [case(1, 10.0)])
    with closing(Store(f"sqlite:///{before}")) as store:
        begin(store, 5)
        watched = WatchedSweeps(store.sweeps)
        assert shown(watched, store) == dict.fromkeys(range(1, 6), "waiting")

        after.replace(before)
        for side in ("-wal", "-shm"):
            (tmp_path / f"before.db{side}").unlink(missing_ok=True)

        assert shown(watched, store) == {1: "done"}
        assert shown(watched, store, after=5) == {1: "done"}  # whoever watched the one before


def test_only_some_sweeps_are_kept(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path}/history.db")) as store:
        watched = WatchedSweeps(store.sweeps)
        for number in range(2 * MOST_KEPT):
            begin(store, 2, f"sweep{number}")
            assert len(shown(watched, store, sweep_id=f"sweep{number}")) == 2

        assert len(watched) == MOST_KEPT

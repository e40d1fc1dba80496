"""An engine of sweeps whose workers answer at once, to look at what becomes of their answers."""

import os
import random
import signal
import time
from contextlib import closing

from sqlalchemy.exc import OperationalError

from memorymark.history import Store
from memorymark.sweep.running import Sweeping
from memorymark.sweep.work import Lost, Outcome
from support.recorded_analyses import recorded
from support.sweeps import SHARED, cases, finished, margins

MACHINE = {"host": "node-1", "system": "", "python": "", "processors": 1, "gpus": [], "driver": None}


class Instant:
    """An engine whose workers answer at once: ``fails`` names errors by case, ``loses`` how often a case is lost."""

    measures_by_default, width = False, 1

    def __init__(self, *, fails=None, loses=None, stops_after=None):
        self.fails, self.loses, self.left = fails or {}, loses or {}, stops_after
        self.begun, self.waiting, self.is_closed = [], [], False

    def require(self, _cases):
        pass

    def submit(self, work):
        self.waiting.append(work)

    def next(self, _seconds):
        work = self.waiting.pop(0)
        return list(self._happens(work))

    def _happens(self, work):
        for place, case in enumerate(work.cases):
            self.begun.append(case.number)
            if self.loses.get(case.number, 0) > 0:
                self.loses[case.number] -= 1
                yield Lost(work.cases[place:], "a node was lost")
                return
            if self.left == 0:
                raise KeyboardInterrupt
            self.left = self.left and self.left - 1
            error = self.fails.get(case.number)
            result = recorded("bert_fp32")[1].to_dict() if error is None else None
            yield Outcome(case.number, 1.0, 2.0, MACHINE, result, error and error.to_dict(with_detail=True))

    def close(self):
        self.is_closed = True


class Slow(Instant):
    """One that takes a moment for each case, so that it can be killed between any two steps."""

    def _happens(self, work):
        for outcome in super()._happens(work):
            time.sleep(0.005)
            yield outcome


def sweep_and_be_killed(url, times):
    """Sweeps sixty cases in processes of which so many are killed at random; tells what each left."""
    asked, chance = cases(SHARED + margins(15)), random.Random(26)
    recorded("bert_fp32")
    for left in range(times, -1, -1):
        before = _finished(url)
        if (child := os.fork()) == 0:
            with closing(Store(url)) as store:
                Sweeping(asked, Slow(), store, together_at_most=1).run()
            os._exit(0)
        if left:
            wanted = before + chance.randint(0, 6)
            while _finished(url) < wanted:
                time.sleep(0.01)
            time.sleep(chance.random() / 50)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(_finished(url))  # noqa: T201 - the test reads it


def _finished(url):
    """How many answers there are; none before there is a history."""
    try:
        return sum(finished(url).values())
    except OperationalError:
        return 0

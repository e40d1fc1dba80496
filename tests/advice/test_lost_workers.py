"""Advice whose workers are lost: another looks once more, and what is missing then is said and never reused."""

from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from memorymark.errors import WorkerError, WorkerLostError
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.render.html import page
from memorymark.render.terminal import print_result
from memorymark.results.advice import Advice
from memorymark.results.option import Fault
from memorymark.units import GIB
from support.advices import advice, option
from support.simulated_gpu import Machine, ask, by_precision, roomy

KILLED = "the worker was killed (signal 9)."
FAULT = Fault(("bf16",), KILLED)


@dataclass
class Deadly(Machine):
    """A machine whose workers are lost so many times with recipes that are ``deadly``."""

    deadly: object = None
    times: int = 1
    lost: list = field(default_factory=list)

    def open(self, request, **options):
        if self.deadly(request) and len(self.lost) < self.times:
            self.lost.append(request)
            raise WorkerLostError(KILLED)
        return super().open(request, **options)


def with_losses(times, deadly, **fields):
    sound = roomy(**fields)
    return Deadly(sound.fixed_bytes, sound.sample_bytes, sound.speed, deadly=deadly, times=times, here=sound.here)


DEADLY = {
    "today": lambda request: request.recipe.precision == "fp32" and not request.recipe.tf32,
    "an option": lambda request: request.recipe.precision == "bf16",
    "its run": lambda request: request.recipe.precision == "bf16" and request.target.gpu is None,
}


@pytest.mark.parametrize("deadly", DEADLY.values(), ids=DEADLY)
def test_a_worker_lost_once_costs_nothing(deadly):
    machine = with_losses(1, deadly)

    found, sound = ask(machine), ask(roomy())

    assert len(machine.lost) == 1
    assert (found.incomplete, found.faults, found.to_dict()["incomplete"]) == (False, (), False)
    assert [one.changes for one in found.ranked] == [one.changes for one in sound.ranked]
    assert found.best == sound.best


def test_an_option_whose_workers_are_lost_is_said_to_be_missing():
    found = ask(with_losses(2, lambda request: request.recipe.tf32))

    assert found.faults == (Fault(("tf32",), KILLED),)
    assert ("tf32",) not in [one.changes for one in (*found.options, *found.refused)]
    document = found.to_dict()
    assert document["incomplete"]
    assert document["faults"] == [{"changes": ["tf32"], "title": found.faults[0].title, "reason": KILLED}]
    assert Advice.from_dict(document) == found


def test_a_run_whose_workers_are_lost_is_said_to_be_missing():
    found = ask(with_losses(2, DEADLY["its run"]))

    assert found.incomplete
    assert found.faults[0].changes not in [one.changes for one in found.refused]


def test_todays_training_needs_its_worker():
    with pytest.raises(WorkerLostError, match="killed"):
        ask(with_losses(2, DEADLY["today"]))


def test_what_could_not_be_looked_at_is_not_said_not_to_fit():
    machine = with_losses(99, lambda request: request.recipe != ask_recipe)
    machine = replace(machine, fixed_bytes=lambda _: 1000 * GIB, sample_bytes=lambda _: GIB, lost=[])

    with pytest.raises(WorkerError, match="could not be checked"):
        ask(machine)


ask_recipe = ask(roomy(speed=by_precision)).request.recipe


def test_a_reader_is_told_what_is_missing(capsys):
    incomplete = advice(option(("bf16",), 500.0), faults=(FAULT,))

    print_result(incomplete)

    told = " ".join(capsys.readouterr().out.split())
    assert f"Incomplete: {FAULT.title} could not be tried; ask again." in told
    assert f"Incomplete: {FAULT.title} could not be tried" in page(incomplete)
    assert "None of the changes that could be tried is worth making" in advice(faults=(FAULT,)).verdict


def test_what_a_fault_cut_short_is_never_reused(tmp_path):
    whole, cut = advice(option(("bf16",), 500.0)), advice(faults=(FAULT,))
    question = Question(request=whole.request, advise=True)
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        jobs = [replace(new_job(question, "http"), state="done", result=result.to_dict()) for result in (whole, cut)]
        store.add(jobs[1])
        assert store.answered(jobs[1].key) is None

        store.add(replace(jobs[0], state="running", result=None))
        store.save(jobs[0])
        store.save(jobs[1])
        assert store.answered(jobs[0].key) == jobs[0]
        assert store.job(jobs[1].id) == jobs[1]

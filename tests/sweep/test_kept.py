"""What the history knows of a sweep while it runs, and after."""

from contextlib import closing

import pytest

from memorymark.errors import DoesNotFitError, UsageError
from memorymark.history import Store
from memorymark.sweep import kept
from memorymark.sweep.kept import axes_of, sweep_id, waiting
from memorymark.sweep.running import Sweeping
from support.engines import Instant
from support.sweeps import cases

GRID = "model: bert\ngpu: [a10, h100]\nmargin: [0.05, 0.1]\n"


@pytest.fixture
def store(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        yield store


def sweep(store, engine, document=GRID, **options):
    return Sweeping(cases(document), engine, store, source="sweep.yaml", together_at_most=1, **options).run()


def states(store):
    (listed,) = store.sweeps.latest()
    return [one.state for _, one in sorted(store.sweeps.cases(listed.id), key=lambda pair: pair[1].case.number)]


def test_cases_fill_in_as_they_end_each_with_its_job(store):
    heard = []
    fails = {2: UsageError("no such file.", code="not_readable"), 3: DoesNotFitError("it does not fit.")}

    grid = sweep(store, Instant(fails=fails), on_progress=lambda _: heard.append((states(store), listed(store).state)))

    assert heard[0] == (["waiting"] * 4, "running")
    assert [sum(state == "waiting" for state in found) for found, _ in heard] == [4, 3, 2, 1, 0]
    assert states(store) == ["done", "failed", "does_not_fit", "done"]
    found = {one.case.number: one.case for _, one in store.sweeps.cases(listed(store).id)}
    assert found == {one.number: one for one in grid.cases}
    assert "no such file" in found[2].error
    assert all(store.job(one.job) for one in found.values())
    assert (listed(store).state, listed(store).done, listed(store).failed) == ("finished", 4, 1)


def listed(store):
    (only,) = store.sweeps.latest()
    return only


def test_a_stopped_sweep_is_the_same_when_it_goes_on(store):
    with pytest.raises(KeyboardInterrupt):
        sweep(store, Instant(stops_after=3))
    stopped, before = listed(store), states(store)
    sweep(store, Instant())

    assert (stopped.state, before.count("done"), before.count("waiting")) == ("stopped", 3, 1)
    assert (listed(store).id, listed(store).state, listed(store).reused) == (stopped.id, "finished", 3)
    assert states(store) == ["done"] * 4


def test_a_fresh_sweep_begins_anew(store):
    sweep(store, Instant())
    heard = []
    sweep(store, Instant(), fresh=True, on_progress=lambda _: heard.append(states(store)))

    assert heard[0] == ["waiting"] * 4
    assert listed(store).state == "finished"


def test_one_that_is_refused_is_none(store):
    class Refusing(Instant):
        def require(self, _cases):
            raise UsageError("there is no such GPU.")

    with pytest.raises(UsageError):
        sweep(store, Refusing())

    assert store.sweeps.latest() == []


def test_a_sweep_gives_signs_of_life_while_nothing_ends(store, monkeypatch):
    monkeypatch.setattr(kept, "SIGN_SECONDS", 0.0)
    signs = []

    class Thinking(Instant):
        def next(self, seconds):
            signs.append(listed(store).alive_at)
            return super().next(seconds) if len(signs) > 3 else []

    sweep(store, Thinking())

    assert sorted(set(signs[:4])) == signs[:4]


def test_the_same_cases_are_the_same_sweep_however_they_are_asked_for():
    asked = sweep_id(cases(GRID))

    assert sweep_id(cases("margin: [0.1, 0.05]\nmodel: bert  # ours\ngpu: [h100, a10]\n")) == asked
    assert sweep_id(cases(GRID.replace("0.1", "0.2"))) != asked
    assert sweep_id(cases(GRID + "measure: true\n")) != asked


def test_what_is_measured_on_whatever_is_here_is_another_sweep_elsewhere(monkeypatch):
    here, named = cases("model: bert\ndevice: cpu\n"), cases("model: bert\ngpu: a10\nmeasure: true\n")
    before = sweep_id(here), sweep_id(named)
    monkeypatch.setattr(kept, "describe_machine", lambda: {"host": "elsewhere"})

    assert sweep_id(here) != before[0]
    assert sweep_id(named) == before[1]


def test_axes_are_the_options_that_vary_by_the_names_that_people_know():
    recipes = "recipe:\n  - {tf32: true}\n  - {precision: bf16}\n  - {batch_size: 4}\n"
    document = f"{recipes}gpu: a10\nmodel: [bert, gpt2]\n"
    axes = axes_of([waiting(case) for case in cases(document)])

    assert [(axis.name, [value.label for value in axis.values], axis.in_words) for axis in axes] == [
        ("model", ["BERT base", "GPT-2"], True),
        ("tf32", ["yes", "not set"], True),
        ("precision", ["not set", "bf16"], True),
        ("batch_size", ["not set", "4"], False),
    ]


def test_one_that_waits_is_told_by_what_was_asked():
    (case,) = cases("model: bert\ngpu: a10\nseq_len: 64\nprecision: bf16\n")

    told = waiting(case)

    assert (told.model_name, told.gpu_name, told.sample, told.recipe) == (
        "BERT base",
        "NVIDIA A10",
        "64 tokens",
        "bf16, AdamW",
    )

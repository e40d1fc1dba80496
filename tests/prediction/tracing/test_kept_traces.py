"""Traces that are kept on disk: they come back as they were, and whatever is wrong with them costs no answer."""

import json
import os
import zlib
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.devices import machine
from memorymark.engine.doctor import check_all
from memorymark.prediction.tracing import fake_step
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.kept_traces import KeptTraces, default_folder
from memorymark.prediction.tracing.trace_document import from_document, to_document
from memorymark.probe.predicted import PredictedProbe
from memorymark.training.generation import Generation
from memorymark.worker.calls import Worker
from memorymark.worker.traces import Traces
from support.tiny import tiny

SMALL = mm.Request(model="bert", small=True, seq_len=8, target=mm.Target(gpu="a10"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_CACHE", str(tmp_path))
    return tmp_path / "traces"


@pytest.fixture(scope="module")
def tiny_trace():
    return trace_training(tiny(), mm.Recipe(), (8, 6))


@pytest.fixture
def traced(monkeypatch, tiny_trace):
    """How often a step was traced; to be quick, that of a tiny model stands for all."""
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return tiny_trace

    monkeypatch.setattr(fake_step, "trace_training", counted)
    return calls


def opened(request=SMALL, *, keeps=True):
    """What a new worker says of a request."""
    worker = Worker()
    if keeps:
        worker.keep_traces()
    facts = worker.open(request.to_dict())
    return {name: value for name, value in facts.items() if name != "seconds"}, worker.measure(4)["trial"]


@pytest.mark.parametrize(
    "recipe", [mm.Recipe(), mm.Recipe(precision="fp16", accumulation_steps=2), mm.Recipe(optimizer="none")]
)
def test_a_trace_comes_back_as_it_was(recipe):
    step = trace_training(tiny(), recipe, (8, 6))

    back = from_document(json.loads(json.dumps(to_document(step))))

    assert back == step
    same = [[growth.operation is growth.larger for growth in one.first.operations] for one in (step, back)]
    assert same[0] == same[1]
    probes = [PredictedProbe(one, recipe, find_gpu("a10")) for one in (step, back)]
    assert probes[0].measure(16) == probes[1].measure(16)
    assert probes[0].forecast() == probes[1].forecast()


def test_what_generating_samples_takes_and_where_operations_belong_come_back_too(tiny_trace):
    step = replace(tiny_trace, generation=Generation(4, (100, 200)))
    back = from_document(json.loads(json.dumps(to_document(step))))

    assert back.generation == step.generation
    assert (back.modules, back.homes) == (step.modules, step.homes)
    assert [growth.operation.module for growth in back.later.operations] == [
        growth.operation.module for growth in step.later.operations
    ]
    assert {"inner", "outer"} <= {growth.operation.module for growth in back.later.operations}


def test_a_kept_trace_gives_the_answer_that_it_gave_at_first(folder, monkeypatch):
    first = opened()

    monkeypatch.setattr(fake_step, "trace_training", lambda *_: pytest.fail("traced again"))
    assert opened() == first


def test_a_trace_is_kept_between_workers_that_share_it(folder, traced):
    opened()
    others = [
        replace(SMALL, target=mm.Target(gpu="l4")),  # of the same generation
        replace(SMALL, recipe=mm.Recipe(tf32=True)),
        replace(SMALL, target=mm.Target(gpu="a10", memory_cap_bytes=2**30)),
    ]
    for request in others:
        opened(request)
    assert len(traced) == 1


def test_what_leads_to_another_trace_has_another_key():
    others = [
        replace(SMALL, seq_len=16),
        replace(SMALL, recipe=mm.Recipe(precision="bf16")),
        replace(SMALL, recipe=mm.Recipe(accumulation_steps=2)),
        replace(SMALL, small=False),
        replace(SMALL, model="roberta"),
    ]
    traces = Traces()
    keys = {traces.key(request, find_gpu("a10")) for request in (SMALL, *others)}
    keys |= {traces.key(SMALL, find_gpu(gpu)) for gpu in ("t4", "h100")}

    assert len(keys) == 1 + len(others) + 2


@pytest.mark.parametrize("what", ["versions", "foundation"])
def test_a_trace_of_other_versions_or_other_code_is_not_used(monkeypatch, what):
    before = Traces().key(SMALL, find_gpu("a10"))
    monkeypatch.setattr(f"memorymark.worker.traces.{what}", lambda: {"source": "another"})

    assert Traces().key(SMALL, find_gpu("a10")) != before


def test_another_config_under_the_same_name_on_the_hub_is_another_trace(monkeypatch):
    keys = set()
    for layers in (2, 3):
        config = {"model_type": "bert", "num_hidden_layers": layers}
        monkeypatch.setattr("memorymark.models.workloads.hub_config", lambda *_, config=config: config)
        keys.add(Traces().key(mm.Request(model="org/name"), find_gpu("a10")))

    assert len(keys) == 2


def test_whoever_changes_a_file_changes_what_results_rest_on(tmp_path):
    (tmp_path / "prediction").mkdir()
    (tmp_path / "prediction" / "scratch.py").write_text("one")
    before = machine.fingerprint(tmp_path)
    (tmp_path / "prediction" / "__pycache__").mkdir()
    (tmp_path / "prediction" / "__pycache__" / "scratch.pyc").write_text("compiled")
    assert machine.fingerprint(tmp_path) == before

    (tmp_path / "prediction" / "scratch.py").write_text("two")
    assert machine.fingerprint(tmp_path) != before


def test_a_worker_that_was_not_told_so_keeps_nothing_and_reads_nothing(folder, traced):
    opened(keeps=False)
    assert not folder.exists()

    opened()
    opened(keeps=False)
    assert len(traced) == 3


def test_traces_can_be_turned_off(folder, traced, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_CACHE", "off")

    opened()
    opened()

    assert default_folder() is None
    assert len(traced) == 2
    assert not folder.exists()


def test_a_model_that_runs_code_is_traced_each_time(folder, traced, tmp_path):
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "import memorymark as mm\n"
        "def make():\n"
        "    return mm.Workload(\n"
        "        build=lambda: torch.nn.Linear(4, 4),\n"
        "        batch=lambda size, device: {'x': torch.ones(size, 4, device=device)},\n"
        "        loss=lambda model, batch: model(batch['x']).sum(),\n"
        "    )\n"
    )
    request = mm.Request(model=f"{tmp_path}/nets.py:make", target=mm.Target(gpu="a10"))

    opened(request)
    opened(request)

    assert len(traced) == 2
    assert not folder.exists()


DAMAGED = {"empty": b"", "no trace": b"something else", "cut off": None, "no JSON": zlib.compress(b"{")}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_removed(folder, content):
    kept = KeptTraces(folder)
    kept.keep("key", {"a": list(range(100))})
    file = folder / "key.trace"
    file.write_bytes(file.read_bytes()[:-10] if content is None else content)

    assert kept.find("key") is None
    assert not file.exists()


def test_a_file_with_another_document_is_removed_and_traced_again(folder, traced):
    opened()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(zlib.compress(b'{"sample": "", "step": {"tensors": [[[1], "load", 1, true, false]]}}'))

    opened()

    assert len(traced) == 2
    assert file.read_bytes() == whole


def test_the_folder_is_the_user_s_alone(folder):
    KeptTraces(folder).keep("key", {"a": 1})

    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


def test_what_others_may_write_to_is_neither_read_nor_written(folder):
    kept = KeptTraces(folder)
    kept.keep("key", {"a": 1})
    assert kept.find("key") == {"a": 1}

    folder.chmod(0o777)
    kept.keep("other", {})
    assert kept.find("key") is None
    assert len(list(folder.iterdir())) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_is_somebody_else_s_is_not_read(folder):
    kept = KeptTraces(folder)
    kept.keep("key", {"a": 1})
    os.chown(folder / "key.trace", 65534, 65534)
    assert kept.find("key") is None

    kept.keep("key", {"a": 2})
    os.chown(folder, 65534, 65534)
    assert kept.find("key") is None


def test_a_link_is_not_followed(folder, tmp_path):
    kept = KeptTraces(folder)
    kept.keep("key", {"a": 1})
    (folder / "key.trace").rename(tmp_path / "elsewhere")
    (folder / "key.trace").symlink_to(tmp_path / "elsewhere")

    assert kept.find("key") is None


def test_beyond_the_limit_those_go_that_were_not_used_for_the_longest(folder):
    noise = [os.urandom(1000).hex() for _ in range(4)]
    kept = KeptTraces(folder, limit_bytes=4000)
    for number, text in enumerate(noise[:3]):
        kept.keep(str(number), text)
        os.utime(folder / f"{number}.trace", (number, number))
    assert kept.find("0") == noise[0]  # from here on the one used last

    kept.keep("3", noise[3])

    assert kept.find("1") is None
    assert kept.find("0") == noise[0]
    assert kept.find("3") == noise[3]
    assert kept.size_bytes <= 4000


def test_a_folder_that_cannot_be_made_costs_no_answer(tmp_path):
    (tmp_path / "file").write_text("")
    kept = KeptTraces(tmp_path / "file" / "traces")

    kept.keep("key", {})

    assert kept.find("key") is None
    assert (kept.count, kept.size_bytes) == (0, 0)


def test_the_doctor_says_where_traces_are_and_how_much_they_take(folder, monkeypatch):
    KeptTraces(folder).keep("key", {"a": 1})

    check = next(check for check in check_all() if check.name == "traces")
    assert check.found.startswith(f"1 kept in {folder}, 0.0 KiB of 0.25 GiB")

    monkeypatch.setenv("MEMORYMARK_CACHE", "off")
    check = next(check for check in check_all() if check.name == "traces")
    assert check.found == "not kept (MEMORYMARK_CACHE=off)"


def test_a_service_s_workers_keep_no_traces_and_the_command_line_s_do(monkeypatch):
    from memorymark import answer as engine
    from memorymark.question.question import Question

    class SeenError(Exception):
        """Where the question would be answered has been seen."""

    def site(*_, keep_traces, **__):
        raise SeenError(keep_traces)

    monkeypatch.setattr(engine, "Site", site)
    question = Question(request=SMALL)

    with pytest.raises(SeenError, match="True"):
        engine.answer(question)
    with pytest.raises(SeenError, match="False"):
        engine.answer(question, workers=object())

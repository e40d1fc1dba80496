import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.models.workloads import look_early, workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.training.step import TrainingStep

CODE = """
from pathlib import Path

import torch
from torch import nn

import memorymark as mm
from beside_it import WIDTH


def batch(size, device):
    return {"x": torch.rand(size, WIDTH, device=device), "y": torch.randint(0, 4, (size,), device=device)}


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"])


def net(hidden=32):
    return nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, 4))


def make(hidden=32, *, deep=False):
    return mm.Workload(build=lambda: net(hidden), batch=batch, loss=loss)


def own_optimizer():
    return mm.Workload(
        build=net, batch=batch, loss=loss, optimizer=lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1)
    )


def raises():
    raise ValueError("no such data set.")


def leaves():
    raise SystemExit(3)


def gives_a_module():
    return nn.Linear(2, 2)


def gives_nothing():
    pass


def no_parameters():
    return mm.Workload(build=nn.ReLU, batch=batch, loss=loss)


def frozen():
    return mm.Workload(build=lambda: net().requires_grad_(False), batch=batch, loss=loss)


def no_module():
    return mm.Workload(build=lambda: "model", batch=batch, loss=loss)


def build_raises():
    return mm.Workload(build=lambda: nn.Linear(Path("x"), 1), batch=batch, loss=loss)


def same_batches():
    return mm.Workload(build=net, batch=lambda size, device: batch(4, device), loss=loss)


def batch_raises():
    return mm.Workload(build=net, batch=lambda size, device: 1 / 0, loss=loss)


def no_batch():
    return mm.Workload(build=net, batch=lambda size, device: {"names": ["a"] * size}, loss=loss)


def nested():
    def batch(size, device):
        labels = torch.zeros(size, dtype=torch.long)
        return [torch.rand(size, WIDTH, device=device)], {"names": ["a"] * size, "y": labels}

    return mm.Workload(net, batch, lambda model, batch: nn.functional.cross_entropy(model(batch[0][0]), batch[1]["y"]))


def no_loss():
    return mm.Workload(build=net, batch=lambda size, device: {"input": torch.rand(size, WIDTH, device=device)})


def looks_at_its_weights():
    def build():
        model = net()
        assert float(model[0].weight.abs().max()) >= 0  # which no tensor on the meta device can tell
        return model

    return mm.Workload(build=build, batch=batch, loss=loss)


WORKLOAD = make()
NUMBER = 7
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "beside_it.py").write_text("WIDTH = 16\n")
    (tmp_path / "nets.py").write_text(CODE)
    return tmp_path / "nets.py"


def workload(file, call, **options):
    return workload_of(mm.Request(model=f"{file}:{call}", **options))


def step(workload):
    run = TrainingStep(workload, mm.Recipe(), torch.device("cpu"))
    run(2)
    return run


@pytest.mark.parametrize(
    ("call", "hidden"), [("make", 32), ("make(8)", 8), ("make(8, deep=True)", 8), ("WORKLOAD", 32)]
)
def test_a_function_in_a_file_makes_the_workload_from_its_arguments(file, call, hidden):
    made = workload(file, call)

    assert step(made).model[0].weight.shape == (hidden, 16)
    assert made.sample == "x 16, y"


def test_the_same_function_is_measured_and_predicted(file):
    made = workload(file, "make")
    traced = trace_training(made, mm.Recipe(), find_gpu("a10").capability)

    assert traced.facts.parameters == sum(p.numel() for p in made.build().parameters())


def test_an_optimizer_of_its_own_is_used_measured_and_predicted(file):
    made = workload(file, "own_optimizer")
    traced = trace_training(made, mm.Recipe(), find_gpu("a10").capability)

    assert isinstance(step(made).optimizers[0], torch.optim.Adagrad)
    assert not any("sqrt_" in growth.operation.name for growth in traced.later.operations if "exp_avg" in str(growth))
    assert TrainingStep(made, mm.Recipe(optimizer="none"), torch.device("cpu")).optimizers == []


def test_a_build_that_needs_real_weights_is_built_for_real(file):
    traced = trace_training(workload(file, "looks_at_its_weights"), mm.Recipe(), find_gpu("a10").capability)

    assert traced.facts.parameters > 0


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("gone", "nets.py has no gone; it has batch, loss, net, make, "),
        ("NUMBER", "NUMBER of nets.py is not a function but an int"),
        ("raises", r"nets.py:raises raised ValueError: no such data set\.$"),
        ("leaves", "nets.py:leaves raised SystemExit: 3"),
        ("make(1, 2)", r"nets.py:make\(1, 2\) raised TypeError: make\(\) takes"),
        ("gives_a_module", "returned a Linear, not a memorymark.Workload; return Workload"),
        ("gives_nothing", "returned nothing, not a memorymark.Workload"),
        ("same_batches", r"batch\(\) of nets.py:same_batches ignores its size"),
        ("batch_raises", r"batch\(\) of nets.py:batch_raises raised ZeroDivisionError: division by zero"),
        ("no_batch", "returned a dict without any tensor"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_when_it_is_called(file, call, complaint):
    with pytest.raises(UsageError, match=complaint):
        workload(file, call)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("no_parameters", "has no parameters to train: the ReLU that it builds has none"),
        ("frozen", "has no parameters to train: the Sequential that it builds has none"),
        ("no_module", r"build\(\) of nets.py:no_module returned a str, not a torch.nn.Module"),
        ("build_raises", r"build\(\) of nets.py:build_raises raised TypeError"),
        ("no_loss", "the model of .* returns a Tensor without .loss; pass loss="),
    ],
)
def test_what_is_wrong_with_a_workload_is_said_measured_and_predicted(file, call, complaint):
    made = workload(file, call)

    with pytest.raises(UsageError, match=complaint):
        step(made)
    with pytest.raises(UsageError, match=complaint):
        trace_training(made, mm.Recipe(), find_gpu("a10").capability)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"task": "causal-lm"}, "task= does not apply to nets.py:make, which makes its own batches"),
        ({"seq_len": 8}, "seq_len= does not apply"),
        ({"image_size": 8}, "image_size= does not apply"),
        ({"audio_seconds": 8}, "audio_seconds= does not apply"),
        ({"small": True}, "nets.py:make has no small stand-in"),
        ({"recipe": mm.Recipe(loss="mean")}, 'loss="mean" needs logits, and nets.py:make returns none'),
    ],
)
def test_options_that_say_nothing_to_a_function_are_refused(file, options, complaint):
    with pytest.raises(UsageError, match=complaint):
        workload(file, "make", **options)


def test_a_file_that_is_not_there_is_missed_before_torch_is_imported(file):
    request = mm.Request(model=f"{file.parent}/gone.py:make")

    with pytest.raises(UsageError, match=r"there is no file .*/gone\.py"):
        look_early(request)
    with pytest.raises(UsageError, match="revision= is for Hugging Face ids"):
        mm.Request(model=f"{file}:make", revision="main")


def test_a_file_that_is_no_program_is_said_to_be_so(tmp_path):
    (tmp_path / "nets.py").write_text("def make(:\n")

    with pytest.raises(UsageError, match=r"nets.py cannot be imported \(SyntaxError: "):
        workload(tmp_path / "nets.py", "make")


def test_a_module_that_is_not_installed_is_said_to_be_missing():
    with pytest.raises(UsageError, match=r"no_such_package.nets cannot be imported \(ModuleNotFoundError"):
        workload_of(mm.Request(model="no_such_package.nets:make"))


def test_a_request_for_a_function_survives_json_without_its_file(file):
    request = mm.Request(model=f"{file}:make(8)")
    file.unlink()

    assert mm.Request.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert request.entry.name == "nets.py:make(8)"


def run(*arguments, folder):
    command = [sys.executable, "-m", "memorymark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_a_file_beside_you_and_a_module_beside_you_work_from_the_command_line(file):
    measured = run("measure", "nets.py:make(8)", "-b", "4", "--device", "cpu", "--json", "-q", folder=file.parent)
    predicted = run("predict", "nets:make(8)", "-b", "4", "--gpu", "a10", "--json", "-q", folder=file.parent)

    assert json.loads(measured.stdout)["batch_size"] == 4, measured.stderr
    assert json.loads(predicted.stdout)["source"] == "predicted", predicted.stderr


def test_a_missing_file_is_one_sentence(file):
    result = run("predict", "gone.py:make", "--gpu", "a10", "-q", folder=file.parent)

    assert result.returncode == 2
    assert (
        result.stderr
        == f"Error: there is no file {Path(file.parent).resolve()}/gone.py; check the path of gone.py:make.\n"
    )

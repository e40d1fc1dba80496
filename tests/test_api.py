import inspect
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
import typer
from torch.utils.data import DataLoader

import memorymark as mm
from memorymark import keyword_types, keywords
from memorymark.cli.main import app
from memorymark.units import GIB, MIB
from support.lengths import SWEEP
from support.tiny import PARAMETERS, TinyNet, tiny, tiny_batch

HERE = {"device": "cpu", "memory_gib": 1 / 1024}
# What the command line has and Python does not: it prints, or asks a service, which Client does.
ONLY_THERE = {"code", "script", "as_json", "quiet", "server", "fresh", "no_history", "model", "every_gpu"}
FILES = {"html", "svg"}


@pytest.mark.parametrize(
    ("command", "options", "more"),
    [
        ("analyze", keyword_types.AnalysisOptions, {"seq_len", "all_gpus"}),
        ("advise", keyword_types.AnalysisOptions, {"seq_len", "try_compile"}),
        ("predict", keyword_types.TrialOptions, {"batch_size"}),
        ("measure", keyword_types.TrialOptions, {"batch_size"}),
        ("matrix", keyword_types.TrialOptions, {"all_gpus", "max_batch"}),
        ("explain", keyword_types.TrialOptions, {"batch_size", "snapshot"}),
    ],
)
def test_python_has_the_options_of_the_command_line_by_the_same_names(command, options, more):
    there = {p.name for p in typer.main.get_command(app).commands[command].params} - ONLY_THERE - FILES

    assert {*options.__annotations__, *more} - {"on_event"} == there


def test_options_make_the_request_that_they_name():
    request = keywords.make_request(
        "bert",
        {"precision": "bf16", "lora": 8, "eval_mode": True, "accumulate": 2, "gpu": "a10", "memory_gib": 2.0,
         "seq_len": 64},
    )  # fmt: skip

    assert request == mm.Request(
        model="bert",
        seq_len=64,
        recipe=mm.Recipe(precision="bf16", lora=8, train_mode=False, accumulation_steps=2),
        target=mm.Target(gpu="a10", memory_cap_bytes=2 * GIB),
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: mm.analyze("bert", precison="bf16"),
            "'precison' is not an option here: did you mean precision\\? See docs/python.md",
        ),
        (lambda: mm.analyze("bert", train_mode=False), "'train_mode' is not an option here"),
        (lambda: mm.analyze(mm.Request(model="bert"), precision="bf16"), "a Request already says how"),
        (lambda: mm.analyze(tiny(), seq_len=8), "'seq_len' is not an option here: a Workload makes its own"),
        (lambda: mm.analyze(tiny(), seq_len=[8, 16]), "a Workload makes its own batches; analyze one for each length"),
        (lambda: mm.analyze(TinyNet()), "not a TinyNet; for a module that is already built, see max_batch_size"),
        (lambda: mm.analyze("bert", memory_gib=-1), "^memory_gib= must be a number above 0, not -1"),
        (lambda: mm.analyze("bert", batch_size=0), "^batch_size= must be 1 or more, not 0"),
        (lambda: mm.predict("bert", 0), "^batch_size= must be 1 or more, not 0"),
        (lambda: mm.measure("bert", 8, gpu="a10"), "measure runs on a device of this machine"),
        (lambda: mm.measure(tiny(), 8, gpu="a10"), "measure runs on a device of this machine"),
        (lambda: mm.analyze("bert", seq_len=[64, 9999], gpu="a10"), "bert takes 1 to 512 tokens"),
    ],
)
def test_misuse_is_refused_in_a_sentence(call, said):
    with pytest.raises(mm.UsageError, match=said):
        call()


@pytest.mark.parametrize("option", [*keyword_types.AnalysisOptions.__annotations__, "seq_len", "all_gpus"])
@pytest.mark.parametrize("model", ["bert", tiny()], ids=["name", "workload"])
def test_an_option_of_a_wrong_type_is_refused_by_its_name(model, option):
    with pytest.raises(mm.UsageError, match=option):
        mm.analyze(model, **{option: object()})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mm.analyze("bert", gpu=5), "gpu= must be a string, or a list of several, not 5"),
        (lambda: mm.analyze("bert", memory_gib="8"), "memory_gib= must be a number, not '8'"),
        (lambda: mm.analyze("bert", margin="x"), "margin= must be a number, not 'x'"),
        (
            lambda: mm.analyze("bert", price_per_hour=True),
            "price_per_hour= must be a number, or several .*, not True",
        ),
        (lambda: mm.analyze("bert", people=2.5), "people= must be a whole number, not 2.5"),
        (lambda: mm.analyze("bert", fused="no"), "fused= must be True or False, not 'no'"),
        (lambda: mm.analyze("bert", seq_len="128"), "seq_len= must be a whole number, not '128'"),
        (lambda: mm.analyze("bert", seq_len=1.5), "seq_len= must be a whole number, not 1.5"),
        (lambda: mm.predict("bert", 4, on_event=5), "on_event= must be a function, not 5"),
        (lambda: mm.measure("bert", 4, time_limit="5"), "time_limit= must be a number, not '5'"),
        (lambda: mm.advise("bert", try_compile="no"), "try_compile= must be True or False, not 'no'"),
    ],
)
def test_what_is_right_is_said_of_a_wrong_type(call, said):
    with pytest.raises(mm.UsageError, match=said):
        call()


@pytest.mark.parametrize("kind", [mm.Recipe, mm.Target, mm.Request, mm.Usage, mm.Question], ids=lambda k: k.__name__)
def test_what_is_made_piece_by_piece_is_of_the_right_types(kind):
    whole = {mm.Request: {"model": "bert"}, mm.Question: {"request": mm.Request(model="bert")}}.get(kind, {})

    for field in fields(kind):
        with pytest.raises(mm.UsageError, match="object"):
            kind(**{**whole, field.name: object()})


@pytest.mark.parametrize("margin", [0, np.float32(0.25)], ids=repr)
def test_numbers_may_be_of_other_kinds(margin):
    assert mm.analyze(tiny(), gpu="a10", max_batch=2, margin=margin).margin == margin


def test_a_model_by_name_is_predicted_with_the_options_of_the_command_line():
    trial = mm.predict("bert", 4, gpu="a10", small=True, lora=4)

    assert (trial.source, trial.batch_size, trial.fits) == ("predicted", 4, True)
    assert trial.breakdown.optimizer_state_bytes < trial.breakdown.weights_bytes


def test_a_workload_is_measured_in_this_process():
    events = []

    result = mm.analyze(tiny(), **HERE, batch_size=4, optimizer="sgd", on_event=events.append)

    assert (result.source, result.info.device_kind, result.request.entry.name) == ("measured", "cpu", "tiny")
    assert result.max_is_exact
    assert result.info.parameters == PARAMETERS
    assert result.max_batch_size > result.recommended.batch_size > 0
    assert events[0].message == "building tiny"
    assert mm.Analysis.from_dict(result.to_dict()) == result


def test_a_workload_is_predicted_in_this_process_for_a_gpu_that_is_not_here():
    result = mm.analyze(tiny(), gpu="a10", memory_gib=0.05, precision="bf16")

    assert (result.source, result.info.device_name) == ("predicted", "NVIDIA A10")
    assert result.max_is_exact
    assert mm.predict(tiny(), result.max_batch_size, gpu="a10", memory_gib=0.05, precision="bf16").fits
    assert not mm.predict(tiny(), result.max_batch_size + 1, gpu="a10", memory_gib=0.05, precision="bf16").fits


def test_a_workload_is_compared_on_all_gpus():
    result = mm.analyze(tiny(), all_gpus=True, max_batch=1024)

    assert result.analyses.keys() == {contender.gpu.id for contender in result.contenders}
    assert result.request.entry.name == "tiny"


def test_one_trial_of_a_workload_is_measured():
    trial = mm.measure(tiny(), 8, **HERE)

    assert (trial.source, trial.batch_size, trial.fits) == ("measured", 8, True)
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_a_workload_that_fits_no_gpu_is_told_of_with_its_own_optimizer():
    huge = mm.Workload(
        build=lambda: torch.nn.Linear(400_000, 400_000),
        batch=lambda size, device: {"input": torch.rand(size, 400_000, device=device)},
        loss=lambda model, batch: model(**batch).mean(),
        name="huge",
        optimizer=lambda model: torch.optim.RMSprop(model.parameters()),
    )

    with pytest.raises(mm.DoesNotFitError, match=r"huge \(fp32, RMSprop\) fits no GPU of the catalog, not even"):
        mm.analyze(huge, all_gpus=True)


def test_a_workload_that_does_not_fit_says_what_would_help():
    with pytest.raises(mm.DoesNotFitError, match=r"tiny .* even at batch 1, .*; raise memory_gib=, or"):
        mm.analyze(tiny(), device="cpu", memory_gib=16 / 2**20)


def test_a_workload_may_have_an_optimizer_of_its_own():
    own = mm.Workload(TinyNet, tiny_batch, name="tiny", optimizer=lambda model: torch.optim.RMSprop(model.parameters()))

    for result in (mm.analyze(own, **HERE, max_batch=8), mm.analyze(own, gpu="a10", max_batch=8)):
        assert result.info.optimizer == "RMSprop"
        assert result.maximum.breakdown.optimizer_state_bytes // (4 * PARAMETERS) == 1


def test_a_workload_may_say_how_large_a_sample_is():
    said = mm.Workload(TinyNet, tiny_batch, name="tiny", sample="16 numbers")

    for result in (mm.analyze(said, **HERE, max_batch=2), mm.analyze(said, gpu="a10", max_batch=2)):
        assert result.info.sample == "16 numbers"
        assert "16 numbers · fp32, AdamW" in str(result)


@pytest.mark.parametrize("where", [HERE, {"gpu": "a10"}], ids=["measured", "predicted"])
@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (
            DataLoader([0, 1]),
            r"batch= must be a function that makes as many samples as requested, .*, not a DataLoader",
        ),
        (
            lambda size: tiny_batch(size, "cpu"),
            r"batch= is called as batch\(size, device\), but <lambda> does not accept that",
        ),
    ],
    ids=["loader", "no device"],
)
def test_what_makes_no_batches_is_told_what_a_batch_function_is(batch, said, where):
    with pytest.raises(mm.UsageError, match=said):
        mm.analyze(tiny(batch=batch), **where)


def test_a_batch_function_that_ignores_its_size_is_found_out():
    always_four = tiny(batch=lambda size, device: tiny_batch(4, device))

    with pytest.raises(mm.UsageError, match="returns as much for 2 samples as for 1"):
        mm.analyze(always_four, **HERE)


def test_the_callers_randomness_is_as_before():
    torch.manual_seed(7)
    before = torch.get_rng_state()

    mm.measure(tiny(), 8, **HERE)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "name", ["analyze", "predict", "measure", "explain", "matrix", "max_batch_size", "analyze_all_gpus"]
)
def test_what_is_exported_says_what_it_does(name):
    assert inspect.getdoc(getattr(mm, name))


def test_the_package_imports_no_torch():
    code = "import sys, memorymark; print(sorted({'torch', 'transformers', 'peft', 'ray', 'rich'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("result", [SWEEP, SWEEP.plan, SWEEP.plan.maximum], ids=lambda result: type(result).__name__)
def test_results_show_themselves_in_a_notebook(result):
    shown = result._repr_mimebundle_()

    assert shown.keys() == {"text/plain", "text/html"}
    assert "8" in shown["text/plain"]
    assert "\x1b" not in shown["text/plain"]
    assert shown["text/html"].startswith('<div class="mm">')
    assert str(result) == shown["text/plain"]


def test_the_largest_batch_of_a_workload_does_not_hang_on_the_way_it_is_asked_for():
    cap = 1 / 1024

    by_analysis = mm.analyze(tiny(), device="cpu", memory_gib=cap, optimizer="sgd").max_batch_size
    in_a_script = mm.max_batch_size(TinyNet(), tiny_batch, optimizer="sgd", device="cpu", memory_gib=cap)

    assert by_analysis == pytest.approx(in_a_script, abs=2)
    assert in_a_script * 4 * 64 < MIB

from functools import cache, partial
from itertools import count, pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import memorymark as mm
from memorymark.catalog import all_gpus, find_gpu
from memorymark.errors import CannotPredictError
from memorymark.largest_batch import find_maximum
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing import sharing
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from memorymark.units import GIB, MIB, format_bytes
from support.tiny import PARAMETERS, TinyNet, tiny

A10, H200 = find_gpu("a10"), find_gpu("h200")
STAND_INS = ["bert", "gpt2", "resnet"]
CAP_BYTES = GIB
TINY_BYTES = 4 * PARAMETERS


def probe_of(workload, recipe=None, *, gpu=A10, cap_bytes=None):
    recipe = recipe or mm.Recipe()
    return PredictedProbe(trace_training(workload, recipe, gpu.capability), recipe, gpu, memory_cap_bytes=cap_bytes)


@cache
def traced(model, recipe, capability):
    """The small stand-in of a built-in model, traced once for all tests."""
    return trace_training(workload_of(mm.Request(model=model, small=True)), recipe, capability)


def stand_in(model, *, gpu=A10, cap_bytes=None, allocator="default", **recipe):
    recipe = mm.Recipe(**recipe)
    step = traced(model, recipe, gpu.capability)
    return PredictedProbe(step, recipe, gpu, memory_cap_bytes=cap_bytes, allocator=allocator)


def doing(something):
    """A plain module that does something with its hidden values."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(16, 64), nn.Linear(64, 4)

        def forward(self, x):
            return self.outer(something(self.inner(x)))

    return mm.Workload(
        build=Net,
        batch=lambda size, device: {"x": torch.rand(size, 16, device=device)},
        loss=lambda model, batch: model(**batch).square().mean(),
    )


def relative(trial):
    """The intervals of a trial as parts of what is predicted."""
    return {
        name: (low / getattr(trial, name), high / getattr(trial, name)) for name, (low, high) in trial.intervals.items()
    }


@pytest.mark.parametrize("model", STAND_INS)
def test_expandable_segments_hold_larger_batches_in_the_same_memory(model):
    default, expandable = (
        stand_in(model, cap_bytes=CAP_BYTES, allocator=allocator) for allocator in ("default", "expandable")
    )
    largest = expandable.forecast()
    assert default.forecast() <= largest
    assert not expandable.try_batch(largest + 1).fits
    trials = [probe.measure(default.forecast() // 2) for probe in (default, expandable)]
    assert trials[1].peak_allocated_bytes <= trials[0].peak_allocated_bytes
    assert trials[1].peak_reserved_bytes <= trials[0].peak_reserved_bytes
    assert trials[1].breakdown.total_bytes == trials[1].device_bytes
    assert trials[1].step_seconds == pytest.approx(trials[0].step_seconds, rel=0.01)


def test_a_page_that_reaches_beyond_a_cap_is_within_the_interval():
    cap_bytes = 191 * MIB
    trial = stand_in("bert", cap_bytes=cap_bytes, allocator="expandable").measure(109)
    low, high = trial.intervals["peak_reserved_bytes"]
    assert trial.fits
    assert cap_bytes < trial.peak_reserved_bytes < cap_bytes + 20 * MIB
    assert low < trial.peak_reserved_bytes == high


@pytest.mark.parametrize("model", STAND_INS)
def test_the_probe_says_what_it_predicts_and_for_which_gpu(model):
    info, capped = stand_in(model).info, stand_in(model, cap_bytes=CAP_BYTES).info

    real = workload_of(mm.Request(model=model, small=True)).build()
    assert (info.source, info.device_kind, info.device_name) == ("predicted", "cuda", "NVIDIA A10")
    assert info.parameters == sum(parameter.numel() for parameter in real.parameters())
    assert info.total_bytes == A10.torch_memory_bytes
    assert (info.capacity_bytes, info.capped) == (A10.torch_memory_bytes - A10.context_bytes[1], False)
    assert (capped.capacity_bytes, capped.capped) == (CAP_BYTES, True)
    assert info.unknown_operations == ()


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("model", STAND_INS)
def test_a_trial_has_the_peaks_of_two_whole_steps(model, size):
    trial = stand_in(model).try_batch(size)

    assert (trial.batch_size, trial.fits, trial.source, trial.steps) == (size, True, "predicted", 2)
    assert trial.failure is trial.breakdown is trial.step_seconds is trial.intervals is None
    assert 0 < trial.resting_bytes < trial.forward_peak_bytes <= trial.peak_allocated_bytes
    assert trial.resting_bytes < trial.backward_peak_bytes <= trial.peak_allocated_bytes
    assert trial.peak_allocated_bytes <= trial.peak_reserved_bytes
    assert trial.device_bytes == trial.peak_reserved_bytes + A10.context_bytes[1]
    assert trial.allocator_retries == 0


@pytest.mark.parametrize("size", [1, 8, 500])
@pytest.mark.parametrize("model", STAND_INS)
def test_the_breakdown_adds_up_to_what_the_device_holds(model, size):
    trial = stand_in(model).measure(size)

    parts = trial.breakdown
    assert parts.total_bytes == trial.device_bytes
    assert min(vars(parts).values()) >= 0
    assert parts.context_bytes == A10.context_bytes[1]
    assert parts.allocator_slack_bytes == trial.peak_reserved_bytes - trial.peak_allocated_bytes


@pytest.mark.parametrize(
    ("recipe", "state_bytes"),
    [({"optimizer": "adamw"}, 2 * TINY_BYTES), ({"optimizer": "sgd"}, TINY_BYTES), ({"optimizer": "none"}, 0)],
    ids=str,
)
def test_weights_gradients_and_optimizer_state_are_named_to_the_byte(recipe, state_bytes):
    parts = probe_of(tiny(), mm.Recipe(**recipe)).measure(1).breakdown

    assert parts.weights_bytes == TINY_BYTES + TinyNet().calls.nbytes
    assert parts.gradients_bytes == TINY_BYTES
    assert parts.optimizer_state_bytes == state_bytes


def test_at_a_large_batch_activations_make_the_peak_and_grow_with_the_batch():
    small, large = (stand_in("bert").measure(size) for size in (1000, 2000))

    assert large.breakdown.activations_bytes > 0.5 * large.peak_allocated_bytes
    assert large.breakdown.activations_bytes == pytest.approx(2 * small.breakdown.activations_bytes, rel=0.001)
    assert large.breakdown.weights_bytes == small.breakdown.weights_bytes
    # The optimizer's state may lie in blocks that are a little larger, which activations left.
    assert large.resting_bytes == pytest.approx(small.resting_bytes, abs=MIB)


@pytest.mark.parametrize("gpu", ["t4", "a10", "b200"])
@pytest.mark.parametrize("model", STAND_INS)
def test_a_larger_batch_never_needs_less(model, gpu):
    probe = stand_in(model, gpu=find_gpu(gpu))

    trials = [probe.try_batch(size) for size in (*range(1, 20), 32, 33, 50, 64, 100, 128, 1000, 4000)]

    assert all(trial.fits for trial in trials)
    assert all(a.peak_allocated_bytes <= b.peak_allocated_bytes for a, b in pairwise(trials))
    assert trials[0].peak_allocated_bytes < trials[-1].peak_allocated_bytes


@pytest.mark.parametrize("cap_bytes", [64 * MIB, CAP_BYTES, None], ids=["64 MiB", "1 GiB", "the whole GPU"])
@pytest.mark.parametrize("model", STAND_INS)
def test_the_forecast_fits_and_the_next_size_does_not(model, cap_bytes):
    probe = stand_in(model, cap_bytes=cap_bytes)

    largest = probe.forecast()

    assert probe.try_batch(largest).fits
    assert not probe.try_batch(largest + 1).fits
    assert probe.try_batch(largest).peak_reserved_bytes <= probe.info.capacity_bytes
    assert find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe).maximum == largest


def test_more_memory_holds_a_larger_batch():
    maxima = [stand_in("bert", cap_bytes=cap).forecast() for cap in (64 * MIB, 128 * MIB, CAP_BYTES, None)]

    assert maxima == sorted(set(maxima))


def test_a_cap_gives_no_more_than_the_context_leaves():
    capped, whole = stand_in("bert", cap_bytes=A10.torch_memory_bytes), stand_in("bert")

    assert capped.info.capacity_bytes == whole.info.capacity_bytes
    assert capped.forecast() == whole.forecast()
    assert capped.try_batch(whole.forecast()).device_bytes <= A10.torch_memory_bytes


def test_what_does_not_fit_says_how_much_is_missing():
    probe = stand_in("bert", cap_bytes=CAP_BYTES)

    trial = probe.measure(5000)

    failure = trial.failure
    assert (trial.fits, trial.source, failure.kind) == (False, "predicted", "memory")
    needed = stand_in("bert").measure(5000).peak_allocated_bytes
    assert (failure.requested_bytes, failure.free_bytes) == (pytest.approx(needed, rel=1e-3), CAP_BYTES)
    said = f"out of memory: the step needs {format_bytes(needed)} and the allocator can have 1.00 GiB"
    assert failure.message == said
    assert trial.breakdown is trial.samples_per_second is None
    assert trial.step_seconds == pytest.approx(stand_in("bert").measure(5000).step_seconds, rel=0.01)


def test_weights_that_do_not_fit_leave_no_batch():
    probe = stand_in("bert", cap_bytes=MIB)

    trial = probe.try_batch(1)

    assert probe.forecast() is None
    assert (trial.fits, trial.steps, trial.failure.kind) == (False, 0, "memory")
    assert trial.failure.shortfall_bytes == stand_in("bert").measure(1).peak_allocated_bytes - MIB


IMAGES, LABELS = torch.rand(64, 3, 32, 32), torch.zeros(64, dtype=torch.long)


def classifying(batch):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 10))
    return mm.Workload(lambda: net, batch, lambda model, b: nn.functional.cross_entropy(model(b[0]), b[1]), name="net")


@pytest.mark.parametrize(
    "batch",
    [
        lambda n, _: (IMAGES[:n], LABELS[:n]),
        lambda n, device: (IMAGES[:n].to(device), LABELS[:n].to(device)),
        lambda n, _: (IMAGES[torch.arange(n)], LABELS[torch.arange(n)]),
    ],
    ids=["slices", "moved slices", "picked"],
)
def test_batches_out_of_a_data_set_take_what_their_samples_take(batch):
    made = classifying(lambda n, device: (torch.rand(n, 3, 32, 32), torch.zeros(n, dtype=torch.long)))
    expected, found = (probe_of(workload, mm.Recipe()).measure(1000) for workload in (made, classifying(batch)))

    assert found.peak_allocated_bytes == pytest.approx(expected.peak_allocated_bytes, rel=0.01)


def test_what_the_free_memory_would_hold_in_one_piece_says_what_was_asked_for():
    probe = stand_in("bert", cap_bytes=CAP_BYTES)
    failing = next(size for size in count(probe.forecast()) if not probe.try_from_start(size).fits)
    trial = probe.measure(failing)

    assert stand_in("bert").measure(failing).peak_allocated_bytes < CAP_BYTES
    assert "out of memory: a tensor needs " in trial.failure.message


def test_two_of_the_batches_of_a_step_stand_for_all(monkeypatch):
    recipe, workload = mm.Recipe(accumulation_steps=4), workload_of(mm.Request(model="bert", small=True))
    probe = probe_of(workload, recipe, cap_bytes=CAP_BYTES)
    monkeypatch.setattr(sharing, "TRACED_ACCUMULATION_STEPS", 4)
    all_four, counted_once = trace_training(workload, recipe, A10.capability), mm.Recipe(accumulation_steps=2)
    traced_probe = PredictedProbe(all_four, counted_once, A10, memory_cap_bytes=CAP_BYTES)
    found, expected = probe.measure(8), traced_probe.measure(8)

    assert probe.forecast() == traced_probe.forecast()
    assert found.step_seconds == pytest.approx(expected.step_seconds)
    assert found.samples_per_second == 4 * 8 / found.step_seconds
    assert found.peak_allocated_bytes == expected.peak_allocated_bytes
    assert found.peak_reserved_bytes == expected.peak_reserved_bytes


def test_a_heavier_optimizer_needs_more_at_a_small_batch():
    adamw, sgd, none = (stand_in("bert", optimizer=name).measure(2) for name in ("adamw", "sgd", "none"))

    assert adamw.peak_allocated_bytes > sgd.peak_allocated_bytes > none.peak_allocated_bytes
    assert adamw.breakdown.optimizer_state_bytes == 2 * sgd.breakdown.optimizer_state_bytes
    assert none.breakdown.optimizer_state_bytes == 0


@pytest.mark.parametrize("recipe", [{"gradient_checkpointing": True}, {"precision": "bf16"}], ids=str)
def test_what_is_there_to_save_memory_saves_it_at_a_large_batch(recipe):
    plain, saving = (stand_in("bert", **options).measure(512) for options in ({}, recipe))

    assert saving.peak_allocated_bytes < 0.75 * plain.peak_allocated_bytes
    assert saving.breakdown.activations_bytes < plain.breakdown.activations_bytes


def test_checkpointing_takes_longer_because_the_forward_pass_runs_twice():
    plain, again = (stand_in("bert", **options).measure(4096) for options in ({}, {"gradient_checkpointing": True}))

    assert 1.1 * plain.step_seconds < again.step_seconds < 1.5 * plain.step_seconds


def test_accumulated_batches_count_as_samples_of_one_step():
    once, four_times = (stand_in("bert", **options).measure(4096) for options in ({}, {"accumulation_steps": 4}))

    assert once.samples_per_second == pytest.approx(4096 / once.step_seconds)
    assert four_times.samples_per_second == pytest.approx(4 * 4096 / four_times.step_seconds)
    assert four_times.step_seconds == pytest.approx(4 * once.step_seconds, rel=0.05)


def test_a_step_takes_longer_on_a_slower_gpu_and_at_a_larger_batch():
    slow, fast = (stand_in("bert", gpu=find_gpu(gpu)) for gpu in ("t4", "a10"))

    assert slow.measure(1024).step_seconds > 1.5 * fast.measure(1024).step_seconds
    assert fast.measure(2048).step_seconds == pytest.approx(2 * fast.measure(1024).step_seconds, rel=0.1)


@pytest.mark.parametrize("gpu", [gpu for gpu in all_gpus() if not gpu.memory_only], ids=lambda gpu: gpu.id)
def test_intervals_lie_around_what_is_predicted_on_every_gpu(gpu):
    trial = stand_in("resnet", gpu=gpu).measure(64)

    assert trial.intervals.keys() == {
        "peak_allocated_bytes", "peak_reserved_bytes", "device_bytes", "step_seconds", "samples_per_second"
    }  # fmt: skip
    assert all(0 < low < 1 < high for low, high in relative(trial).values())
    low, high = trial.intervals["device_bytes"]
    assert low == trial.intervals["peak_reserved_bytes"][0] + gpu.context_bytes[0]
    assert high == trial.intervals["peak_reserved_bytes"][1] + gpu.context_bytes[2]


def test_of_a_gpu_whose_speed_is_unknown_only_the_memory_is_predicted():
    probe = stand_in("resnet", gpu=find_gpu("mi300x"))
    trial = probe.measure(64)

    assert probe.info.memory_only
    assert (trial.fits, trial.step_seconds, trial.samples_per_second) == (True, None, None)
    assert trial.intervals.keys() == {"peak_allocated_bytes", "peak_reserved_bytes", "device_bytes"}
    assert trial.peak_allocated_bytes > 0
    assert probe.forecast() > stand_in("resnet", gpu=find_gpu("h100")).forecast()


def test_intervals_of_memory_end_at_the_cap():
    probe = stand_in("bert", cap_bytes=CAP_BYTES)

    intervals = probe.measure(probe.forecast()).intervals

    assert intervals["peak_reserved_bytes"][1] == CAP_BYTES >= intervals["peak_allocated_bytes"][1]


def wider(a, b):
    """Whether each of these intervals reaches further to both sides than the other one."""
    return all(a[name][0] < b[name][0] and b[name][1] < a[name][1] for name in a)


def test_intervals_are_narrower_on_the_gpu_that_predictions_were_held_against():
    measured, elsewhere = (relative(stand_in("bert", gpu=gpu).measure(64)) for gpu in (H200, find_gpu("h100")))

    assert wider(elsewhere, measured)


def test_outputs_that_the_loop_keeps_do_not_rest_between_trials():
    kept, dropped = (
        probe_of(tiny(), mm.Recipe(keep_outputs=keep)).try_from_start(100_000).resting_bytes for keep in (True, False)
    )

    assert kept == dropped


@pytest.mark.parametrize(
    ("something", "named"),
    [
        (lambda hidden: torch.fft.rfft(hidden, n=126).abs(), "aten._fft_r2c.default"),
        (lambda hidden: torch.linalg.qr(hidden.view(-1, 8, 8))[0].reshape(-1, 64), "aten.linalg_qr.default"),
    ],
    ids=["fft", "qr"],
)
def test_operations_that_were_never_measured_are_named_and_make_it_less_certain(something, named):
    unusual, usual = probe_of(doing(something)), probe_of(doing(torch.relu))

    assert usual.info.unknown_operations == ()
    assert named in unusual.info.unknown_operations
    assert not any("linear" in name or "mm" in name for name in unusual.info.unknown_operations)
    assert wider(relative(unusual.measure(64)), relative(usual.measure(64)))


@pytest.mark.parametrize(
    "something",
    [
        lambda hidden: hidden * hidden.sum().item(),
        lambda hidden: hidden if hidden.sum() > 0 else -hidden,
        lambda hidden: hidden * len(hidden.nonzero()),
        lambda hidden: hidden + hidden[hidden > 0].sum(),
        lambda hidden: hidden + hidden.unique().sum(),
    ],
    ids=["item", "branch", "nonzero", "mask", "unique"],
)
def test_a_model_that_needs_a_value_that_only_a_run_knows_is_refused(something):
    with pytest.raises(CannotPredictError, match=r"values? .*that only a run knows"):
        trace_training(doing(something), mm.Recipe(), A10.capability)


def test_a_model_that_is_not_implemented_without_a_word_is_refused_in_a_sentence():
    def unfinished(hidden):
        raise NotImplementedError

    with pytest.raises(CannotPredictError, match=r"no shape rule; measure on a GPU: NotImplementedError"):
        trace_training(doing(unfinished), mm.Recipe(), A10.capability)


def test_a_model_that_looks_at_its_inputs_can_be_predicted():
    """As transformers does with masks: what the batch is made of is known."""

    def loss(model, batch):
        assert bool(batch["labels"].ge(0).all())
        return model(**batch).loss

    assert probe_of(tiny(loss=loss)).try_batch(8) == probe_of(tiny()).try_batch(8)


def test_a_compiled_step_is_refused():
    with pytest.raises(CannotPredictError, match=r"torch\.compile chooses and fuses kernels on the GPU itself"):
        trace_training(tiny(), mm.Recipe(compile=True), A10.capability)


def test_checkpointing_that_the_model_lacks_is_refused_as_in_a_run():
    with pytest.raises(mm.UsageError, match="TinyNet has no gradient checkpointing"):
        trace_training(tiny(), mm.Recipe(gradient_checkpointing=True), A10.capability)


def test_a_model_that_looks_at_its_weights_while_it_is_built_can_be_predicted():
    class Picky(TinyNet):
        def __init__(self):
            super().__init__()
            assert self.inner.weight.abs().max().item() > 0

    assert probe_of(tiny(build=Picky)).try_batch(8) == probe_of(tiny()).try_batch(8)


def test_weights_that_are_shared_are_counted_once():
    class Tied(TinyNet):
        def __init__(self):
            super().__init__()
            self.twin = nn.Linear(*self.inner.weight.shape[::-1])
            self.twin.weight = self.inner.weight

    tied = probe_of(tiny(build=Tied))

    assert tied.info.parameters == PARAMETERS + TinyNet().inner.bias.numel()
    assert tied.measure(1).breakdown.weights_bytes == 4 * tied.info.parameters + TinyNet().calls.nbytes


def test_memory_that_grows_with_the_square_of_the_batch_is_predicted():
    probe = probe_of(doing(lambda hidden: (hidden @ hidden.T) @ hidden))
    assert probe.try_batch(8192).peak_allocated_bytes > 8192**2 * 4


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_ways_of_checkpointing_keep_less_and_take_longer(reentrant, precision):
    def part(hidden):
        for _ in range(6):
            hidden = torch.nn.functional.gelu(hidden * 2.0)
        return hidden

    def parts(run):
        def all_of_them(hidden):
            for _ in range(6):
                hidden = run(part, hidden)
            return hidden

        return doing(all_of_them)

    recipe = mm.Recipe(precision=precision)
    kept = probe_of(parts(lambda run, hidden: run(hidden)), recipe).measure(65536)
    recomputed = probe_of(parts(partial(checkpoint, use_reentrant=reentrant)), recipe).measure(65536)
    assert recomputed.peak_allocated_bytes < 0.7 * kept.peak_allocated_bytes
    assert recomputed.step_seconds > kept.step_seconds

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.devices import open_device
from memorymark.devices.segments import Segment
from memorymark.largest_batch import find_maximum
from memorymark.probe.measured import MeasuredProbe
from memorymark.units import KIB, MIB
from support.probes import probe_for
from support.tiny import PARAMETERS, TinyNet, tiny, tiny_batch

WEIGHT_BYTES = 4 * PARAMETERS
BUFFER_BYTES = 4
STEP_COUNTER_BYTES = 4 * len(list(TinyNet().parameters()))


def failing(error, above=8, before_raising=lambda tensor: None):
    """A workload whose forward pass ends with an error above a size."""

    def loss(model, batch):
        output = model(**batch)
        if len(batch["x"]) > above:
            before_raising(output.logits)
            raise type(error)(*error.args)  # a new one: an error that lives on keeps the tensors of its frames
        return output.loss

    return tiny(loss=loss)


@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize(
    ("options", "state_bytes"),
    [
        ({"optimizer": "adamw"}, 2 * WEIGHT_BYTES + STEP_COUNTER_BYTES),
        ({"optimizer": "adam"}, 2 * WEIGHT_BYTES + STEP_COUNTER_BYTES),
        ({"optimizer": "sgd"}, WEIGHT_BYTES),
        ({"optimizer": "none"}, 0),
        ({"precision": "fp16"}, 2 * WEIGHT_BYTES + STEP_COUNTER_BYTES),
        ({"accumulation_steps": 2}, 2 * WEIGHT_BYTES + STEP_COUNTER_BYTES),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_the_breakdown_adds_up_and_names_weights_and_optimizer_state_to_the_byte(options, state_bytes, size):
    trial = probe_for(recipe=mm.Recipe(**options)).measure(size)

    parts = trial.breakdown
    assert trial.fits
    assert parts.total_bytes == trial.device_bytes == trial.peak_reserved_bytes == trial.peak_allocated_bytes
    assert parts.weights_bytes == WEIGHT_BYTES + BUFFER_BYTES
    assert parts.optimizer_state_bytes == state_bytes
    assert min(vars(parts).values()) >= 0


def test_at_a_small_batch_the_optimizer_makes_the_peak_and_all_gradients_are_alive_in_it():
    trial = probe_for().measure(1)

    assert trial.breakdown.gradients_bytes == WEIGHT_BYTES
    assert trial.peak_allocated_bytes > trial.backward_peak_bytes


def test_at_a_large_batch_activations_make_the_peak_and_grow_with_the_batch():
    probe = probe_for()

    small, large = probe.measure(100), probe.measure(200)

    assert large.breakdown.activations_bytes > 0.5 * large.peak_allocated_bytes
    assert large.breakdown.activations_bytes == pytest.approx(2 * small.breakdown.activations_bytes, rel=0.01)


def test_the_trial_says_what_it_ran():
    probe = probe_for(recipe=mm.Recipe(accumulation_steps=2))

    quick, full = probe.try_batch(8), probe.measure(8)

    assert (quick.fits, quick.steps, quick.source) == (True, 2, "measured")
    assert quick.breakdown is quick.samples_per_second is quick.step_seconds is None
    assert (full.fits, full.steps, full.source) == (True, 3, "measured")
    assert full.samples_per_second == pytest.approx(2 * 8 / full.step_seconds)
    assert full.step_seconds_spread >= 0
    assert full.peak_allocated_bytes == quick.peak_allocated_bytes
    assert full.resting_bytes == quick.resting_bytes == sum(resting_parts(full))
    assert max(full.forward_peak_bytes, full.backward_peak_bytes) <= full.peak_allocated_bytes


def resting_parts(trial):
    return trial.breakdown.weights_bytes, trial.breakdown.optimizer_state_bytes


def test_the_info_says_what_is_behind_the_probe():
    info = probe_for(cap_bytes=MIB).info

    assert (info.device_kind, info.device_name, info.capacity_bytes, info.capped) == ("cpu", "CPU", MIB, True)
    assert info.parameters == PARAMETERS
    assert info.total_bytes > info.capacity_bytes


@pytest.mark.parametrize(
    "recipe",
    [
        mm.Recipe(),
        mm.Recipe(precision="bf16"),
        mm.Recipe(precision="fp16"),
        mm.Recipe(optimizer="sgd", accumulation_steps=2),
        mm.Recipe(train_mode=False, loss="mean", optimizer="none"),
    ],
    ids=mm.Recipe.describe,
)
@pytest.mark.parametrize("cap_kib", [30, 40, 75])
def test_the_maximum_is_that_of_trying_every_size(recipe, cap_kib):
    searching, trying = (probe_for(recipe=recipe, cap_bytes=cap_kib * KIB) for _ in range(2))

    found = find_maximum(searching.try_batch, searching.info.capacity_bytes)

    fits = {size: trying.try_batch(size).fits for size in range(1, 2 * found.maximum + 10)}
    assert found.maximum == max((size for size in fits if fits[size]), default=0)
    assert found.exact
    assert found.blocker.failure.kind == "memory"
    assert searching.measure(found.maximum).fits
    assert searching.clean


class Broad(nn.Module):
    """Activations of a MiB for each sample and operation, and few weights."""

    def __init__(self, mix):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4, 2**16))
        self.mix = mix

    def forward(self, x):
        return self.mix((x * self.scale).tanh()).sigmoid().mean()


def broad_probe(cap_mib, *, mix=None, loss=lambda model, batch: model(**batch)):
    """A probe on a device that has, as a GPU has, a layout to replay steps from: all that is held in one segment."""
    workload = mm.Workload(
        build=lambda: Broad(mix or nn.Identity()),
        batch=lambda size, device: {"x": torch.rand(size, 4, 1, device=device)},
        loss=loss,
    )
    device = open_device(mm.Target(device="cpu", memory_cap_bytes=cap_mib * MIB))
    device.layout = lambda: [Segment(address=0, small=False, blocks=((device.held_bytes(), True),))]
    return MeasuredProbe(workload, mm.Recipe(), device)


def test_two_small_trials_are_enough_for_a_forecast():
    probe = broad_probe(cap_mib=200)

    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)

    assert found.exact
    assert [trial.batch_size for trial in found.trials[:2]] == [2, 4]
    assert found.trials[2].batch_size == pytest.approx(found.maximum, abs=2)


class Recurrent(nn.GRU):
    """A layer whose result alone goes on."""

    def __init__(self):
        super().__init__(4, 4, batch_first=True)

    def forward(self, x):
        return super().forward(x.unflatten(2, (-1, 2**12)).mean(3).transpose(1, 2))[0]


@pytest.mark.parametrize("mix", [lambda: nn.Conv1d(4, 4, 1), Recurrent], ids=["convolution", "recurrent"])
def test_a_model_of_cudnn_s_layers_is_not_forecast_from_the_smallest(mix):
    probe = broad_probe(cap_mib=200, mix=mix())

    assert probe.try_batch(2).fits
    assert probe.second_batch() is None
    assert probe.try_batch(8).fits
    forecast = probe.forecast()

    found = find_maximum(probe.try_batch, probe.info.capacity_bytes)
    assert forecast == pytest.approx(found.maximum, rel=0.05)


def test_nothing_fits_where_the_optimizer_state_has_no_room():
    probe = probe_for(cap_bytes=int(3.5 * WEIGHT_BYTES))

    found = find_maximum(probe.try_batch, probe.info.capacity_bytes)

    assert found.maximum == 0
    assert found.trials[-1].batch_size == 1
    assert 0 < found.trials[-1].failure.shortfall_bytes < WEIGHT_BYTES


def test_weights_beyond_the_cap_are_refused_when_building():
    with pytest.raises(mm.DoesNotFitError, match=r"the weights of tiny alone exceed the 3\.0 KiB") as caught:
        probe_for(cap_bytes=3 * KIB)

    assert 0 < caught.value.shortfall_bytes < WEIGHT_BYTES


def test_compile_is_refused_where_compiled_memory_cannot_be_counted():
    with pytest.raises(mm.UsageError, match=r"torch\.compile cannot be measured on the CPU"):
        probe_for(recipe=mm.Recipe(compile=True))


def test_an_allocator_that_the_device_does_not_have_is_a_usage_error():
    with pytest.raises(mm.UsageError, match="expandable segments need a CUDA GPU"):
        MeasuredProbe(tiny(), mm.Recipe(), open_device(mm.Target(device="cpu")), allocator="expandable")


@pytest.mark.parametrize("size", [80, 1000, 100_000])
def test_after_out_of_memory_the_device_is_as_it_was(size):
    probe = probe_for(cap_bytes=80 * KIB)
    before = probe.measure(8)

    failed = probe.measure(size)
    after = probe.measure(8)

    assert not failed.fits
    assert failed.failure.kind == "memory"
    assert failed.breakdown is failed.samples_per_second is None
    assert failed.failure.shortfall_bytes > 0
    assert failed.peak_allocated_bytes <= 80 * KIB
    assert probe.clean
    assert (after.peak_allocated_bytes, after.resting_bytes) == (before.peak_allocated_bytes, before.resting_bytes)
    assert after.breakdown == before.breakdown


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_after_out_of_memory_in_the_optimizer_the_device_is_as_it_was(precision):
    device = open_device(mm.Target(device="cpu", memory_cap_bytes=MIB))
    probe = MeasuredProbe(tiny(), mm.Recipe(precision=precision), device)
    before = probe.try_batch(1)
    assert before.peak_allocated_bytes > max(before.forward_peak_bytes, before.backward_peak_bytes)

    device.cap(before.peak_allocated_bytes - 1)

    assert not probe.try_batch(1).fits
    assert device.reading().allocated_bytes <= before.resting_bytes
    assert probe.clean


def test_memory_held_by_a_cycle_is_collected_before_the_next_trial():
    class Knot:
        pass

    def tie(tensor):
        knot = Knot()
        knot.self, knot.tensor = knot, tensor

    probe = probe_for(failing(torch.OutOfMemoryError(), before_raising=tie))
    probe.try_batch(8)

    assert not probe.try_batch(9).fits
    assert probe.clean


def test_a_workload_that_keeps_tensors_after_a_failure_is_not_clean():
    leaked = []
    probe = probe_for(failing(torch.OutOfMemoryError(), before_raising=leaked.append))
    probe.try_batch(8)
    assert probe.clean

    assert not probe.try_batch(9).fits
    assert leaked
    assert not probe.clean


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "memory"),
        (torch.OutOfMemoryError(), "memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "memory"),
        (RuntimeError("CUDA error: invalid configuration argument"), "limit"),
        (RuntimeError("Expected canUse32BitIndexMath(input) to be true, but got false."), "limit"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("run", ["try_batch", "measure"])
def test_memory_and_launch_limits_end_the_trial_and_not_the_probe(run, error, kind):
    probe = probe_for(failing(error))

    trial = getattr(probe, run)(9)

    assert (trial.batch_size, trial.fits, trial.failure.kind) == (9, False, kind)
    assert getattr(probe, run)(8).fits


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError("Expected input batch_size (9) to match target batch_size (8)."),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("run", ["try_batch", "measure", "phase_peaks"])
def test_a_crash_is_raised_and_not_called_out_of_memory(run, error):
    probe = probe_for(failing(error))

    with pytest.raises(type(error)) as caught:
        getattr(probe, run)(9)

    assert caught.value.args == error.args


def test_a_launch_limit_bounds_the_search_and_is_named():
    probe = probe_for(failing(RuntimeError("CUDA error: invalid configuration argument"), above=37))

    found = find_maximum(probe.try_batch, probe.info.capacity_bytes)

    assert (found.maximum, found.exact, found.blocker.failure.kind) == (37, True, "limit")


def test_phase_peaks_grow_from_forward_to_the_full_step():
    peaks = probe_for().phase_peaks(100)

    assert list(peaks) == ["forward", "forward_backward", "full_step"]
    assert WEIGHT_BYTES < peaks["forward"] < peaks["forward_backward"] < peaks["full_step"]


def test_phase_peaks_of_a_size_that_does_not_fit_say_so():
    with pytest.raises(mm.DoesNotFitError, match=r"batch 1000 does not fit .* use a smaller batch_size="):
        probe_for(cap_bytes=80 * KIB).phase_peaks(1000)


class Tuned(TinyNet):
    """A table that is looked up and not trained, and a buffer that no operation touches."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 16).requires_grad_(False)
        self.register_buffer("spare", torch.zeros(1000))

    def forward(self, x, labels=None):
        return super().forward(x + self.table(labels), labels)


def adam_that_has_stepped(model):
    optimizer = torch.optim.Adam(model.parameters())
    model(**tiny_batch(4, torch.device("cpu"))).loss.backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("preserve", [True, False])
def test_a_model_and_an_optimizer_that_are_there_already_count_like_those_that_the_probe_makes(preserve):
    model = Tuned()
    optimizer = adam_that_has_stepped(model)
    theirs = mm.Workload(build=lambda: model, batch=tiny_batch, optimizer=lambda _: optimizer)
    ours = mm.Workload(build=Tuned, batch=tiny_batch, optimizer=lambda model: torch.optim.Adam(model.parameters()))

    with probe_for(theirs, preserve=preserve) as probe:
        first, measured = probe.try_batch(8), probe.measure(8)

    assert measured.breakdown == probe_for(ours).measure(8).breakdown
    assert first.peak_allocated_bytes == measured.peak_allocated_bytes
    assert measured.breakdown.weights_bytes == WEIGHT_BYTES + BUFFER_BYTES + 4 * (500 * 16 + 1000)


def test_weights_that_are_there_already_and_exceed_the_cap_are_refused():
    model = TinyNet()

    with pytest.raises(mm.DoesNotFitError, match=r"the weights of tiny alone exceed the 3\.0 KiB"):
        probe_for(tiny(build=lambda: model), cap_bytes=3 * KIB, preserve=True)


def test_a_slice_of_a_data_set_counts_like_a_batch_that_is_made():
    data = tiny_batch(2000, torch.device("cpu"))

    def sliced(size, device):
        return {name: tensor[:size] for name, tensor in data.items()}

    for size in (8, 100, 2000):
        measured = probe_for(tiny(batch=sliced), cap_bytes=16 * MIB).measure(size)
        expected = probe_for(cap_bytes=16 * MIB).measure(size)
        assert measured.breakdown == expected.breakdown


class SparseNet(nn.Module):
    """An embedding whose gradient holds the rows that were looked up, and no others."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 16, sparse=True)

    def forward(self, ids):
        return self.table(ids).square().mean()


def test_sparse_gradients_are_counted_by_what_they_hold():
    workload = mm.Workload(
        build=SparseNet,
        batch=lambda size, device: {"ids": torch.arange(size, device=device)},
        loss=lambda model, batch: model(**batch),
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    )

    trial = probe_for(workload).measure(10)

    assert trial.fits
    assert trial.breakdown.weights_bytes == 1000 * 16 * 4
    assert trial.peak_allocated_bytes < 1.1 * trial.breakdown.weights_bytes

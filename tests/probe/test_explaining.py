"""Where the memory of a step goes: through the step and by module, of ten workloads."""

from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.devices.allocations import PARTS_ALLOCATED, Source, Trace
from memorymark.probe import explaining
from memorymark.probe.explaining import Folds, anatomy_of, timeline_of
from memorymark.probe.kinds import Kinds
from memorymark.results.explanation import ModuleFacts
from memorymark.results.trial import Trial
from support.explained import BATCH, WORKLOADS, anatomy, probe_of
from support.tiny import tiny


def parts_of(breakdown):
    return {part: size for part in PARTS_ALLOCATED if (size := getattr(breakdown, part))}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_areas_at_the_peak_are_the_breakdown_to_the_byte(name):
    trial = probe_of(name).measure(BATCH)
    timeline = anatomy(name).timeline
    at_peak = {part: sizes[timeline.peak] for part, sizes in timeline.parts.items()}
    at_peak["temporaries_bytes"] = at_peak.get("temporaries_bytes", 0) + timeline.rounding_bytes

    assert {part: size for part, size in at_peak.items() if size} == parts_of(trial.breakdown)
    assert timeline.peak_bytes == max(timeline.totals) == trial.peak_allocated_bytes


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_modules_hold_adds_up_to_the_breakdown(name):
    found = anatomy(name)
    sums = {part: sum(module.parts.get(part, 0) for module in found.modules) for part in PARTS_ALLOCATED}

    assert {part: size for part, size in sums.items() if size} == parts_of(found.trial.breakdown)
    assert sum(module.total_bytes for module in found.modules) == found.trial.peak_allocated_bytes


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_phases_follow_each_other_through_the_whole_step(name):
    timeline = anatomy(name).timeline
    ends = [0, *(span.end for span in timeline.phases)]

    assert [span.start for span in timeline.phases] == ends[:-1]
    assert ends[-1] == timeline.events == timeline.moments[-1]
    assert timeline.phases[0].name == "forward" and timeline.phases[-1].name == "optimizer"
    assert timeline.peak_phase == timeline.phase_at(timeline.moments[timeline.peak])


def test_moments_that_are_left_out_change_nothing_that_is_kept(monkeypatch):
    whole = anatomy("bert").timeline
    monkeypatch.setattr(explaining, "MOST_MOMENTS", 60)
    few = probe_of("bert").explain(BATCH).timeline

    assert len(whole.moments) == whole.events + 1
    assert len(few.moments) <= 60 and few.events == whole.events
    assert few.moments[few.peak] == whole.moments[whole.peak]
    for at, moment in enumerate(few.moments):
        assert {part: sizes[at] for part, sizes in few.parts.items()} == {
            part: sizes[moment] for part, sizes in whole.parts.items()
        }
        assert (few.operations[at], few.modules[at]) == (whole.operations[moment], whole.modules[moment])


def kinds(name):
    return {(module.path, module.kind) for module in anatomy(name).modules}


def test_memory_is_known_by_what_it_is_for():
    assert {
        ("transformer.wte", "embedding"),
        ("transformer.h.*.ln_1", "norm"),
        ("transformer.h.*.attn", "attention_scores"),
        ("transformer.h.*.attn.c_attn", "attention"),
        ("transformer.h.*.mlp.c_fc", "mlp"),
        ("transformer.h.*", "residual"),
    } <= kinds("gpt2, eager attention")
    assert ("bert.encoder.layer.*.attention.output.dense", "attention") in kinds("bert")
    assert ("bert.encoder.layer.*.intermediate.dense", "mlp") in kinds("bert")
    assert "convolution" in {kind for _, kind in kinds("resnet in bf16")}
    assert "attention_scores" not in {kind for _, kind in kinds("bert")}  # fused attention keeps none


def test_scores_of_attention_are_as_large_as_they_must_be():
    found = anatomy("gpt2, eager attention")
    scores = [blocks for blocks in found.alive if blocks.kind == "attention_scores"]
    queries, keys = scores[0].shape[-2:]

    assert queries == keys
    assert all(blocks.total_bytes % (BATCH * queries * keys) == 0 for blocks in scores)


def test_logits_are_known_by_the_vocabulary():
    step = probe_of("decoder").step
    probe = type(probe_of("decoder"))(
        replace(step, facts=replace(step.facts, vocabulary=200)), mm.Recipe(), probe_of("decoder").info.gpu
    )
    logits = [module for module in probe.explain(BATCH).modules if module.kind == "logits"]

    assert logits and all(module.total_bytes % (BATCH * 200) == 0 for module in logits)
    assert sum(module.total_bytes for module in logits) >= BATCH * 15 * 200 * 4


@pytest.mark.parametrize(("classes", "kind"), [(32_128, "logits"), (4, "linear")])
def test_many_logits_are_known_by_the_loss_too(classes, kind):
    modules = {"": ModuleFacts("Net", "other"), "head": ModuleFacts("Linear", "linear")}
    ran = [Source("aten._log_softmax.default", "", (64, classes)), Source("aten.mm.default", "head", (64, classes))]
    kinds = Kinds.of(modules, ran, 0)

    assert kinds.of_block(ran[1], lasting=False) == kind
    assert kinds.of_block(Source("", "head"), lasting=True) == "linear"


def test_equal_layers_are_folded_and_others_are_not():
    facts = {
        "": ModuleFacts("Net", "other"),
        "layers": ModuleFacts("ModuleList", "list"),
        **{f"layers.{n}": ModuleFacts("Layer", "other") for n in range(4)},
        **{f"layers.{n}.inner": ModuleFacts("Linear" if n < 3 else "Mixture", "linear") for n in range(4)},
    }
    folds = Folds(facts)

    assert [folds.folded(f"layers.{n}.inner") for n in range(4)] == ["layers.*.inner"] * 3 + ["layers.3.inner"]
    assert (folds.folded(""), folds.folded("layers")) == ("", "layers")


def test_a_key_that_is_used_again_is_another_block():
    trace = Trace(
        before={1: 100},
        events=[(1, -100), (1, 40), (2, 30), (1, -40), (2, -30)],
        marks=[("forward", 2), ("backward", 4), ("optimizer", 5)],
        sources=[Source("free", "a"), Source("make", "b"), Source("make", "c"), Source("x", ""), Source("y", "")],
        origins={1: Source("", "weight")},
    )
    found = anatomy_of(Trial(batch_size=1, fits=True, peak_allocated_bytes=128), trace, {}, {})
    later = timeline_of(trace, {}, 3, 0)

    assert [(module.path, module.total_bytes) for module in found.modules] == [("weight", 100), ("", 28)]
    assert later.parts == {"activations_bytes": [0, 0, 40, 40, 0, 0], "temporaries_bytes": [100, 0, 0, 30, 30, 0]}


def test_a_step_that_does_not_fit_is_explained_as_with_more_memory():
    whole = probe_of("bert")
    need = anatomy("bert").trial.peak_allocated_bytes
    tight = type(whole)(whole.step, mm.Recipe(), whole.info.gpu, memory_cap_bytes=need // 2)
    found = tight.explain(BATCH)

    assert not found.trial.fits
    assert sum(module.total_bytes for module in found.modules) == found.timeline.peak_bytes
    assert found.timeline.peak_bytes == pytest.approx(need, rel=0.02)


@pytest.fixture(scope="module")
def measured():
    return mm.explain(tiny(), 8, device="cpu")


def test_a_measured_step_is_explained_by_what_ran(measured):
    timeline = measured.timeline
    at = timeline.operations.index("aten.addmm.default")

    assert measured.info.source == "measured"
    assert timeline.peak_bytes == measured.trial.peak_allocated_bytes
    assert (timeline.modules[at], timeline.phase_at(timeline.moments[at])) == ("inner", "forward")
    assert {"inner", "outer"} <= {module.path for module in measured.modules}
    assert any(
        phase == "backward" and module == "inner"
        for module, phase in zip(timeline.modules, map(timeline.phase_at, timeline.moments), strict=True)
    )


def test_a_step_whose_operations_are_not_known_is_split_by_part_alone():
    trace = Trace(before={1: 100}, events=[(2, 30), (2, -30)], marks=[("forward", 1), ("backward", 2)])
    found = anatomy_of(Trial(batch_size=1, fits=True, peak_allocated_bytes=130), trace, {1: "weights"}, {})

    assert found.timeline.operations == ["", "", ""]
    assert [(module.path, module.parts) for module in found.modules] == [
        ("", {"weights_bytes": 100, "activations_bytes": 30})
    ]


def test_an_explanation_reads_back(measured):
    assert mm.Explanation.from_dict(measured.to_dict()) == measured

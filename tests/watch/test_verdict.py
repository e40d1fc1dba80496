"""What is said of a training, from its numbers alone."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from memorymark.render.watch import print_watch_report
from memorymark.units import GIB
from memorymark.watch.code import fused
from memorymark.watch.findings.base import Estimate
from memorymark.watch.observation import (
    DeviceFacts,
    Ending,
    LoaderFacts,
    MemoryFacts,
    ModelFacts,
    Observation,
    OptimizerFacts,
)
from memorymark.watch.recording import StepRecording
from memorymark.watch.report import Report
from memorymark.watch.verdict import judge

H200 = DeviceFacts(
    kind="cuda",
    name="NVIDIA H200",
    gpu_id="h200",
    total_bytes=140 * GIB,
    capacity_bytes=139 * GIB,
    capability=(9, 0),
)
ESTIMATE = Estimate(maximum=1700, recommended=1520, basis="one recorded step")
OUT_OF_MEMORY = Ending(kind="OutOfMemoryError", message="CUDA out of memory.", out_of_memory=True)


def memory(gib, **facts):
    return MemoryFacts(
        peak_allocated_bytes=int(0.95 * gib * GIB), peak_reserved_bytes=int(gib * GIB), device_bytes=0, **facts
    )


def observed(**facts):
    """A BERT in fp32 at batch 16, as people start; what is given changes it."""
    usual = {
        "steps": 500,
        "samples": 8000,
        "batch_size": 16,
        "timed_steps": 497,
        "step_seconds": 0.040,
        "median_step_seconds": 0.040,
        "waiting_seconds": 0.001,
        "gpu_idle_seconds": 0.0004,
        "busy": 0.97,
        "power": 0.6,
        "device": H200,
        "model": ModelFacts(name="Bert", parameters=110_000_000, trainable_parameters=110_000_000, precision="float32"),
        "optimizers": [OptimizerFacts(name="AdamW", fused=False, can_fuse=True)],
        "loader": LoaderFacts(num_workers=4, pin_memory=True),
        "memory": memory(3),
        "torch_imported": True,
        "processors": 16,
    }
    return Observation(**{**usual, **facts})


def tuned(**facts):
    fused = [OptimizerFacts(name="AdamW", fused=True, can_fuse=True)]
    usual = {"autocast": "bfloat16", "optimizers": fused, "memory": memory(120), "power": 0.9, "batch_size": 1400}
    return observed(**{**usual, **facts})


def kinds(verdict):
    return [finding.kind for finding in verdict.findings]


def text_of(verdict, seen, **facts):
    console = Console(file=io.StringIO(), width=120, highlight=False)
    print_watch_report(Report(title="train.py", observation=seen, verdict=verdict, **facts), console)
    return console.file.getvalue()


def test_a_first_script_is_told_of_precision_then_batch_then_optimizer():
    verdict = judge(observed(), ESTIMATE)
    assert kinds(verdict) == ["precision", "batch", "optimizer"]
    assert verdict.headline == "It trains in fp32, which this GPU is slow at."
    assert "torch.bfloat16" in verdict.findings[0].code
    assert "batch_size=1520" in verdict.findings[1].code
    assert "at most about 1700" in verdict.findings[1].reason


def test_a_starved_training_is_told_that_a_larger_batch_will_not_help():
    starved = observed(step_seconds=0.1, gpu_idle_seconds=0.071, loader=LoaderFacts(num_workers=0, pin_memory=False))
    verdict = judge(starved, ESTIMATE)
    assert verdict.headline == "You are bound by the data loader, a larger batch will not help."
    assert kinds(verdict)[0] == "data"
    assert "batch" not in kinds(verdict)
    first = verdict.findings[0]
    assert "the GPU waits 71 ms (71 %) for data, loaded in the main process (num_workers=0)" in first.reason
    assert first.code == "DataLoader(..., num_workers=16, pin_memory=True, persistent_workers=True)"
    assert first.gain == "up to 3.4x"


def test_who_waits_less_for_a_batch_than_its_way_from_another_process_takes_is_left_alone():
    loader = LoaderFacts(num_workers=0, pin_memory=False)
    assert "data" not in kinds(judge(observed(step_seconds=2e-3, gpu_idle_seconds=0.8e-3, loader=loader), ESTIMATE))
    assert "data" in kinds(judge(observed(step_seconds=4e-3, gpu_idle_seconds=1.6e-3, loader=loader), ESTIMATE))


def test_two_workers_at_most_halve_the_loading():
    starved = observed(
        step_seconds=0.1, gpu_idle_seconds=0.098, processors=2, loader=LoaderFacts(num_workers=0, pin_memory=True)
    )
    assert judge(starved, ESTIMATE).findings[0].gain == "up to 2.0x"


def test_what_passes_between_steps_without_a_loader_counts_only_where_it_is_much():
    assert kinds(judge(observed(step_seconds=0.1, gpu_idle_seconds=0.2 / 10, loader=None), ESTIMATE))[0] != "data"
    assert kinds(judge(observed(step_seconds=0.1, gpu_idle_seconds=0.05, loader=None), ESTIMATE))[0] == "data"


def test_more_workers_than_processors_are_not_advised():
    starved = observed(gpu_idle_seconds=0.02, loader=LoaderFacts(num_workers=16, pin_memory=True))
    first = judge(starved, ESTIMATE).findings[0]
    assert (first.kind, first.code) == ("data", "")
    assert "16 processors" in first.note


def test_the_host_may_wait_for_data_as_long_as_the_gpu_does_not():
    assert "data" not in kinds(judge(observed(waiting_seconds=0.03, gpu_idle_seconds=0.0), ESTIMATE))


def test_accumulation_is_given_up_for_a_larger_batch_of_the_same_effect():
    seen = tuned(batch_size=16, micro_batches=8, memory=memory(12), power=0.5)
    finding = next(f for f in judge(seen, Estimate(100, 96, "")).findings if f.kind == "batch")
    assert "batch_size=64" in finding.code
    assert "every 2 batches" in finding.code
    assert "stays 128" in finding.note


def test_no_larger_batch_is_advised_where_none_makes_the_effective_one():
    seen = tuned(batch_size=8, micro_batches=4, memory=memory(12), power=0.5)
    assert kinds(judge(seen, Estimate(14, 12, ""))) == []


def test_a_host_that_cannot_keep_up_is_named_where_no_larger_batch_makes_the_effective_one():
    seen = tuned(batch_size=8, micro_batches=4, memory=memory(12), busy=0.5)
    assert kinds(judge(seen, Estimate(14, 12, ""))) == ["host"]


def test_an_effective_batch_without_near_divisors_grows_by_a_few_samples():
    seen = tuned(batch_size=7, micro_batches=7, memory=memory(12), power=0.5)
    finding = next(f for f in judge(seen, Estimate(25, 23, "")).findings if f.kind == "batch")
    assert finding.title == "Use a larger batch: about 17 instead of 7"
    assert "every 3 batches" in finding.code
    assert "becomes 51 instead of 49" in finding.note


def test_the_trainers_own_words_are_used():
    findings = judge(observed(framework="transformers", micro_batches=4), ESTIMATE).findings
    code = {finding.kind: finding.code for finding in findings}
    assert code["precision"] == "TrainingArguments(..., bf16=True)"
    assert code["batch"] == "TrainingArguments(..., per_device_train_batch_size=64, gradient_accumulation_steps=1)"
    assert code["optimizer"] == 'TrainingArguments(..., optim="adamw_torch_fused")'
    with_sgd = observed(framework="transformers", optimizers=[OptimizerFacts(name="SGD", fused=False, can_fuse=True)])
    assert fused(with_sgd, "SGD") == "Trainer(..., optimizers=(torch.optim.SGD(..., fused=True), None))"


def test_nothing_is_worth_changing_in_a_tuned_training():
    verdict = judge(tuned(), Estimate(1600, 1400, ""))
    assert (verdict.headline, verdict.findings) == ("Nothing is worth changing.", [])
    assert "Nothing is worth changing." in text_of(verdict, tuned())


def test_memory_that_a_saturated_gpu_leaves_is_no_waste():
    assert judge(tuned(memory=memory(40), batch_size=400), ESTIMATE).headline == "Nothing is worth changing."


def test_only_small_things_left_is_said_so():
    verdict = judge(tuned(optimizers=[OptimizerFacts(name="AdamW", fused=False, can_fuse=True)]), ESTIMATE)
    assert verdict.headline == "Close to what this GPU can do; one small thing is left: use the fused AdamW."


def test_a_host_that_cannot_keep_up_is_named():
    verdict = judge(tuned(busy=0.55), Estimate(1600, 1400, ""))
    assert kinds(verdict) == ["host"]
    assert verdict.findings[0].gain == "up to 1.8x"


def test_retries_and_fragmentation_are_named():
    assert kinds(judge(tuned(memory=memory(138, retries=40)))) == ["allocator"]
    fragmented = MemoryFacts(peak_allocated_bytes=100 * GIB, peak_reserved_bytes=135 * GIB, device_bytes=0, retries=0)
    assert "Fragmentation" in judge(tuned(memory=fragmented)).headline


def test_who_expands_segments_already_is_not_told_to():
    assert kinds(judge(tuned(memory=replace(memory(138, retries=40), allocator="expandable")))) == []


def test_convolutions_and_checkpointing():
    model = ModelFacts(
        name="ResNet",
        parameters=25,
        trainable_parameters=25,
        precision="float32",
        has_convolutions=True,
        checkpointing=True,
    )
    assert set(kinds(judge(tuned(model=model, memory=memory(20))))) == {"channels_last", "checkpointing"}


def test_running_out_of_memory_comes_first():
    seen = observed(batch_size=64, ending=OUT_OF_MEMORY, memory=memory(138))
    verdict = judge(seen, Estimate(50, 44, ""), exit_code=1)
    assert verdict.headline == "It ran out of memory with batch 64; about 44 should fit."
    assert verdict.findings[0].code == "DataLoader(..., batch_size=32)   # and step the optimizer every 2 batches"
    first_step = judge(Observation(torch_imported=True, batch_size=64, ending=OUT_OF_MEMORY), None, 1)
    assert first_step.headline == "It ran out of memory with batch 64."


def out_of_memory(estimate, **facts):
    verdict = judge(observed(ending=OUT_OF_MEMORY, memory=memory(138), **facts), estimate, exit_code=1)
    return verdict.headline, verdict.findings[0]


def test_a_batch_without_divisors_that_ran_out_of_memory_is_cut_into_near_equal_parts():
    headline, finding = out_of_memory(Estimate(15, 13, ""), batch_size=17)
    assert headline == "It ran out of memory with batch 17; about 13 should fit."
    assert finding.title == "Use a smaller batch: 9"
    assert finding.code == "DataLoader(..., batch_size=9)   # and step the optimizer every 2 batches"


def test_an_estimate_that_the_end_contradicts_is_not_repeated():
    headline, finding = out_of_memory(Estimate(14, 12, ""), batch_size=8)
    assert (headline, finding.title) == ("It ran out of memory with batch 8.", "Use a smaller batch: 4")


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_there_is_no_smaller_batch_than_one(micro_batches):
    headline, finding = out_of_memory(Estimate(1, 1, ""), batch_size=1, micro_batches=micro_batches)
    assert headline == "It ran out of memory with batch 1."
    assert finding.title == "Save memory in the step itself: bf16, gradient checkpointing, shorter samples"
    assert finding.code == ""
    assert "8-bit optimizer or LoRA" in finding.note


def test_what_saves_memory_already_is_not_advised():
    model = ModelFacts(name="Bert", parameters=1, trainable_parameters=1, precision="bfloat16", checkpointing=True)
    assert out_of_memory(None, batch_size=1, model=model)[1].title == "Save memory in the step itself: shorter samples"
    assert "checkpointing" not in out_of_memory(None, batch_size=64, model=model)[1].note
    assert "bf16" not in out_of_memory(None, batch_size=64, autocast="bfloat16")[1].note


def test_a_batch_of_unknown_size_gets_no_number():
    headline, finding = out_of_memory(None, batch_size=None)
    assert headline == "It ran out of memory with this batch."
    assert (finding.title, finding.code) == ("Use a smaller batch", "")


def test_scripts_that_do_not_train_get_a_sentence():
    assert "never imported torch" in judge(Observation(), None, 0).headline
    assert "never trained" in judge(Observation(torch_imported=True), None, 0).headline
    assert "exit code 7" in judge(Observation(torch_imported=True), None, 7).headline
    crashed = Observation(torch_imported=True, ending=Ending(kind="ValueError", message=""))
    assert "ended with ValueError before its first optimizer step" in judge(crashed, None, 1).headline


def test_a_peak_outside_of_the_steps_does_not_use_up_the_memory():
    """An evaluation takes 120 GiB, a step of batch 16 takes 3: a larger batch is still advised."""
    step = StepRecording(16, {1: GIB}, [(2, 2 * GIB), (2, -2 * GIB)], [("forward", 1), ("backward", 2)])
    seen = observed(memory=memory(120), recording=step, autocast="bfloat16")
    assert seen.training_peak_allocated_bytes == 3 * GIB
    verdict = judge(seen, ESTIMATE)
    assert "batch" in kinds(verdict)
    assert "The recorded training step takes 3.00 GiB" in " ".join(text_of(verdict, seen, estimate=ESTIMATE).split())


def test_few_steps_are_too_few_to_time():
    assert judge(tuned(steps=4, timed_steps=1, gpu_idle_seconds=0.03)).headline.startswith("Only 4 steps ran")


def test_the_report_shows_the_numbers_behind_its_verdict():
    seen = observed()
    shown = text_of(judge(seen, ESTIMATE), seen, estimate=ESTIMATE)
    for part in ("500 steps", "Bert 110 M parameters", "fp32", "batch 16", "400 samples/s", "3.00 GiB of 139.00 GiB"):
        assert part in shown
    assert "busy 97 % of the time, at 60 % of its power" in shown
    assert "about 1700" in shown
    assert "Estimated, not run" in shown


def test_an_observation_survives_its_way_through_json():
    seen = observed(ending=Ending(kind="ValueError", message="x"))
    assert Observation.from_dict(json.loads(json.dumps(seen.to_dict()))) == seen


def test_a_loop_that_keeps_its_outputs_is_told_to_keep_only_the_loss():
    estimate = replace(ESTIMATE, maximum=58, recommended=52, maximum_without_outputs=72)
    found = {one.kind: one for one in judge(observed(keeps_outputs=True), estimate).findings}
    assert found["outputs"].title == "Keep only the loss: batch 58 becomes 72"
    assert "outputs" not in {one.kind for one in judge(observed(keeps_outputs=True), ESTIMATE).findings}


@pytest.mark.parametrize("keeps", [True, False])
def test_after_running_out_of_memory_dropping_the_outputs_is_named_if_they_are_kept(keeps):
    found = judge(observed(keeps_outputs=keeps, ending=OUT_OF_MEMORY)).findings[0]
    assert ("keeping only the loss" in found.note) is keeps

"""The predicted peaks of a training step without what only a GPU's kernels take, to compare with real CPU tensors."""

from memorymark.prediction.memory.scratch_space import NOTHING
from memorymark.prediction.memory.simulate import BIAS_WORKSPACES, Memory
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.question.recipe import Recipe

ADA = (8, 9)


def predicted_peaks(workload, size, recipe=None):
    """The peaks of each part of three steps."""
    step, memory, peaks = trace_training(workload, recipe or Recipe(), ADA), Memory(None, 0), {}
    memory.found((), BIAS_WORKSPACES)
    memory.hold(step.weights.items())
    for program in (step.first, step.later, step.later):
        for phase, peak in memory.run(program, size, lambda *_: NOTHING):
            peaks[phase] = max(peaks.get(phase, 0), peak)
    return peaks

"""A GPU by formulas, on which advice can be looked for in no time."""

from dataclasses import dataclass, field, replace

import memorymark as mm
from memorymark.advice import advise as advising
from memorymark.catalog import find_gpu
from memorymark.events import StageStarted
from memorymark.question.question import Question
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.units import GIB, MIB


@dataclass
class Machine:
    """A GPU by two formulas: how many bytes a recipe takes at a batch, and how many samples it trains a second.

    ``true_speed`` is what a run shows where ``speed`` is what is predicted. What is offloaded takes ``host_bytes``.
    """

    fixed_bytes: object
    sample_bytes: object
    speed: object
    true_speed: object = None
    here: bool = True
    capacity_bytes: int = 100 * GIB
    tokens: int = 128
    parameters: int = 1000
    language_model: bool = False
    vocabulary: int = 0
    longest: int = 4096
    host_bytes: int = 0
    workers: object = None
    lanes: int = 1
    opened: list = field(default_factory=list)

    def open(self, request, *, predict_without_gpu):
        assert predict_without_gpu
        predicted = request.target.gpu is not None or not self.here
        if predicted and request.recipe.compile:
            raise mm.CannotPredictError("compiled.")
        if (request.seq_len or 0) > self.longest:
            raise mm.UsageError("too long.", field="seq_len", allowed={"minimum": 1, "maximum": self.longest})
        self.opened.append(request)
        return Probe(self, request, "predicted" if predicted else "measured")

    def announce(self, what, request):
        return StageStarted("start", f"{what} {request.model}")


class Probe:
    """What a machine does with a request."""

    gpu = find_gpu("h200")

    def __init__(self, machine, request, source):
        self.machine, self._request = machine, request
        self.info = ProbeInfo(
            device_kind="cuda",
            device_name=self.gpu.name,
            gpu_id=self.gpu.id,
            total_bytes=machine.capacity_bytes + GIB,
            capacity_bytes=machine.capacity_bytes,
            capped=False,
            parameters=machine.parameters,
            source=source,
            sample_sizes={"tokens": request.seq_len or machine.tokens} if machine.tokens else {},
            language_model=machine.language_model,
            vocabulary=machine.vocabulary,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def try_batch(self, batch_size):
        machine, request = self.machine, self._request
        taken = machine.fixed_bytes(request) + batch_size * machine.sample_bytes(request)
        fits = taken <= machine.capacity_bytes
        return Trial(
            batch_size=batch_size,
            fits=fits,
            source=self.info.source,
            peak_allocated_bytes=int(taken),
            peak_reserved_bytes=int(taken),
            device_bytes=int(taken),
            peak_host_bytes=machine.host_bytes if request.recipe.offload != "none" else 0,
            failure=None if fits else Failure("memory", "no", int(taken), 0),
        )

    try_from_start = try_batch

    def forecast(self):
        return None

    def second_batch(self):
        return None

    def measure(self, batch_size):
        trial = self.try_batch(batch_size)
        machine = self.machine
        speed = machine.true_speed if self.info.source == "measured" and machine.true_speed else machine.speed
        per_second = speed(self._request, batch_size)
        trial = replace(trial, step_seconds=batch_size / per_second)
        return replace(trial, samples_per_second=per_second) if trial.fits else trial


@dataclass
class Disproved(Machine):
    """A machine on which a run takes other memory than was predicted."""

    true_fixed_bytes: object = None
    true_sample_bytes: object = None

    def open(self, request, **options):
        probe = super().open(request, **options)
        if probe.info.source == "measured":
            true = {"fixed_bytes": self.true_fixed_bytes, "sample_bytes": self.true_sample_bytes}
            probe.machine = replace(self, **{name: formula for name, formula in true.items() if formula})
        return probe


def saturating(top, half_at=32):
    return lambda batch_size: top * batch_size / (batch_size + half_at)


def by_precision(request, batch_size):
    top = {"fp32": 1000.0, "bf16": 8000.0}[request.recipe.precision] * (3.0 if request.recipe.tf32 else 1.0)
    return saturating(top * (1.1 if request.recipe.fused else 1.0))(batch_size)


def ask(machine, *, model="bert", try_compile=False, heard=None, batch_size=16, gpu=None, **request):
    question = Question(
        request=mm.Request(model=model, target=mm.Target(gpu=gpu), **request),
        current_batch_size=batch_size,
        advise=True,
        try_compile=try_compile,
    )
    return advising.advise(question, machine, heard.append if heard is not None else lambda _: None)


def roomy(speed=by_precision, **fields):
    return Machine(lambda _: GIB, lambda _: 100 * MIB, speed, **fields)

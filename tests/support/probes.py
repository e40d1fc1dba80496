"""Probes of small workloads: run on the CPU, and predicted for an A10."""

from functools import cache

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.devices import open_device
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.units import MIB
from support.tiny import tiny

A10 = find_gpu("a10")


def probe_for(workload=None, recipe=None, *, cap_bytes=MIB, preserve=False):
    device = open_device(mm.Target(device="cpu", memory_cap_bytes=cap_bytes))
    return MeasuredProbe(workload or tiny(), recipe or mm.Recipe(), device, preserve=preserve)


@cache
def predicted(workload, recipe):
    return PredictedProbe(trace_training(workload, recipe, A10.capability), recipe, A10)

"""Probes answer one question: what happens at this batch size?"""

from memorymark.probe.base import Probe, ProbeInfo

__all__ = ["Probe", "ProbeInfo"]

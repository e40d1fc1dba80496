"""Reads the labels that DCGM's exporters and Prometheus give to a GPU's metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memorymark.fleet.holds import Device, Holder

# The exporter itself, whose pod holds no GPU.
OWN_CONTAINERS = ("dcgm-exporter", "nvidia-dcgm-exporter")


class Labels:
    """Reads the labels of DCGM's exporters as one Prometheus has them.

    Where Prometheus keeps its own labels of a target, those of the exporter begin with ``exported_``; then ``pod`` is
    the exporter's own pod.
    """

    def __init__(self, all_labels: Iterable[dict[str, str]]) -> None:
        exported = any("exported_pod" in labels for labels in all_labels)
        self._prefixes = ("exported_",) if exported else ("",)

    def device(self, labels: dict[str, str]) -> Device:
        """Returns the GPU; its total memory is not a label."""
        host = _first(labels, "Hostname", "hostname", "exported_hostname", "node", "instance")
        return Device(
            host=host.rpartition(":")[0] if host == labels.get("instance") and ":" in host else host,
            index=_first(labels, "gpu", "minor_number"),
            name=_first(labels, "modelName", "model_name"),
            slice=_first(labels, "GPU_I_ID"),
        )

    def holder(self, labels: dict[str, str]) -> Holder | None:
        """Returns the job or the pod that the labels name; ``None`` if they name none."""
        if (job := labels.get("hpc_job", "")) not in ("", "0"):
            return Holder("slurm", job)
        for prefix in self._prefixes:
            pod = _first(labels, f"{prefix}pod", f"{prefix}pod_name")
            space = _first(labels, f"{prefix}namespace", f"{prefix}pod_namespace")
            container = _first(labels, f"{prefix}container", f"{prefix}container_name")
            if pod and container not in OWN_CONTAINERS:
                return Holder("kubernetes", f"{space}/{pod}" if space else pod, space, container)
        return None


def _first(labels: Mapping[str, str], *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")

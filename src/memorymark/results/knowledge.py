"""What is known of a GPU that times are predicted for."""

from __future__ import annotations

from typing import Literal

GpuKnowledge = Literal["measured", "calibrated", "public", "datasheet"]

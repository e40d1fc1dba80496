"""Tests that an older torch cannot pass, though the package works with it."""

import pytest
import torch
from packaging.version import Version


def needs_torch(version, reason):
    """Skips a test with an older torch."""
    return pytest.mark.skipif(Version(torch.__version__) < Version(version), reason=f"needs torch {version}: {reason}")


# Older ones run other operations under autocast.
needs_torch_of_records = needs_torch("2.11", "what the GPU did was recorded with it")
needs_allocator_settings = needs_torch("2.9", "older ones do not tell their allocator's settings")

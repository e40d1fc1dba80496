import os
import subprocess
import sys

import pytest
import torch

from memorymark.devices.allocator_settings import allocator_in_force, use_allocator
from support.torch_versions import needs_allocator_settings

pytestmark = needs_allocator_settings


def tell(settings):
    """What a script does in its own code."""
    torch._C._accelerator_setAllocatorSettings(settings)


def told():
    return torch._C._accelerator_getAllocatorSettings()


@pytest.fixture(autouse=True)
def settings_of_a_fresh_process():
    before = told()
    tell("")
    yield
    use_allocator("default")
    tell(before)


class OlderTorch:
    """A torch that has one function to set the allocator, and none to ask."""

    def __init__(self, monkeypatch):
        self.told = []
        for name in ("_accelerator_setAllocatorSettings", "_accelerator_getAllocatorSettings"):
            monkeypatch.delattr(torch._C, name)
        monkeypatch.setattr(torch.cuda.memory, "_set_allocator_settings", self.told.append)


def test_segments_are_expandable_until_the_default_is_asked_for():
    assert allocator_in_force() == "default"
    use_allocator("expandable")
    assert (allocator_in_force(), told()) == ("expandable", "expandable_segments:True")
    use_allocator("default")
    assert (allocator_in_force(), told()) == ("default", "expandable_segments:False")


def test_the_default_changes_nothing_where_nothing_was_changed():
    tell("max_split_size_mb:100")
    use_allocator("default")
    assert told() == "max_split_size_mb:100"


def test_what_the_process_was_set_to_stays_in_force_and_comes_back():
    mine = "roundup_power2_divisions:[256:1,512:2],max_split_size_mb:100"
    tell(mine)
    for _ in range(2):
        use_allocator("expandable")
        assert told() == f"{mine},expandable_segments:True"
    use_allocator("default")
    assert told() == f"{mine},expandable_segments:False"


def test_a_process_that_expands_segments_by_itself_goes_on_doing_so():
    tell("expandable_segments: True")
    assert allocator_in_force() == "expandable"
    use_allocator("expandable")
    use_allocator("default")
    assert allocator_in_force() == "expandable"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ("", "default"),
        ("expandable_segments:False", "default"),
        ("expandable_segments:True", "expandable"),
        ("max_split_size_mb:100", None),
        ("expandable_segments:True,roundup_power2_divisions:[256:1,>:2]", None),
    ],
)
def test_settings_say_how_the_allocator_works_as_far_as_that_is_modelled(settings, kind):
    tell(settings)
    assert allocator_in_force() == kind


def test_an_older_torch_is_told_in_its_own_way(monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:100")
    torch_before = OlderTorch(monkeypatch)
    use_allocator("expandable")
    use_allocator("default")
    assert torch_before.told == [
        "max_split_size_mb:100,expandable_segments:True",
        "max_split_size_mb:100,expandable_segments:False",
    ]


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_of_an_older_torch_the_environment_says_how_the_allocator_works(monkeypatch, name):
    OlderTorch(monkeypatch)
    assert allocator_in_force() == "default"
    monkeypatch.setenv(name, "expandable_segments:True")
    assert allocator_in_force() == "expandable"
    monkeypatch.setenv(name, "expandable_segments:True,max_split_size_mb:100")
    assert allocator_in_force() is None


def test_an_older_torch_is_known_to_expand_segments_once_it_was_told(monkeypatch):
    OlderTorch(monkeypatch)
    use_allocator("expandable")
    assert allocator_in_force() == "expandable"
    use_allocator("default")
    assert allocator_in_force() == "default"


def test_the_environment_is_read_as_torch_reads_it():
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "x:1"}
    code = "from memorymark.devices.allocator_settings import allocator_in_force; print(allocator_in_force())"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "expandable"

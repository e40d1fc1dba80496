"""A profile as a file: what is written is read back, and what is none is refused in a sentence."""

import json
from dataclasses import replace

import pytest

from memorymark.errors import UsageError
from memorymark.profiles.profile import LARGEST_PROFILE_BYTES, HostStep, Profile, TimedOperation, read_profile
from memorymark.profiles.stored import write

HOST = HostStep(seconds=0.01, eager_calls=72, autograd_calls=100, views=50, updated_tensors=96)
RUN = ["aten.relu.default", [[[4], "float32", True, False]], [[[4], "float32", True, False]], []]
PROFILE = Profile(
    gpu_id="a10",
    gpu_name="NVIDIA A10",
    driver="580.65",
    torch="2.13.0",
    cuda="13.0",
    date="2026-11-19",
    operations=[TimedOperation({"kind": "pointwise", "name": "relu"}, [RUN], 1e-3, 1e-5)],
    failed=2,
    host=HOST,
    to_device_bytes_per_second=2.5e10,
    to_host_bytes_per_second=2.4e10,
)


@pytest.mark.parametrize("profile", [PROFILE, replace(PROFILE, host=None, to_device_bytes_per_second=None)])
def test_what_is_written_is_read_back(tmp_path, profile):
    assert read_profile(write(profile, tmp_path / "made" / "a10.json")) == profile


def refusal(path):
    with pytest.raises(UsageError) as caught:
        read_profile(path)
    assert caught.value.field == "profile"
    return str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "nowhere.json cannot be read: No such file" in refusal(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "analysis"}, "no document of kind profile"),
        ({"version": 2}, "has version 2 of the format, and this MemoryMark reads version 1"),
        ({"operations": "many"}, "missing or wrong"),
        ({"colour": "red"}, "missing or wrong (Profile has no colour)"),
        ({"to_host_bytes_per_second": 0}, "0 is no time or rate"),
        ({"host": {**HOST.to_dict(), "seconds": float("inf")}}, "inf is no time or rate"),
        ({"operations": [{**PROFILE.operations[0].to_dict(), "seconds": -1.0}]}, "-1.0 is no time or rate"),
    ],
)
def test_a_document_that_is_no_profile_is_refused(tmp_path, change, why):
    file = tmp_path / "a10.json"
    file.write_text(json.dumps({**PROFILE.to_dict(), **change}))

    said = refusal(file)

    assert "a10.json is not a profile" in said
    assert why in said
    assert said.endswith("give a file that `memorymark calibrate` wrote.")


def test_a_document_without_its_gpu_is_refused(tmp_path):
    document = PROFILE.to_dict()
    del document["gpu_id"]
    (tmp_path / "a10.json").write_text(json.dumps(document))

    assert "gpu_id" in refusal(tmp_path / "a10.json")


@pytest.mark.parametrize(("content", "why"), [(b"\x80pickle", "not JSON"), (b"[" * 100_000, "not JSON")])
def test_what_is_no_json_is_refused(tmp_path, content, why):
    (tmp_path / "a10.json").write_bytes(content)

    assert why in refusal(tmp_path / "a10.json")


def test_a_file_that_is_too_large_is_not_parsed(tmp_path):
    (tmp_path / "a10.json").write_bytes(b" " * (LARGEST_PROFILE_BYTES + 1))

    assert "it is larger than 4.0 MiB" in refusal(tmp_path / "a10.json")


@pytest.mark.parametrize(
    ("seconds", "host_seconds", "waited"), [(1e-3, 1e-5, False), (1e-5, 1e-6, True), (1e-4, 9e-5, True)]
)
def test_a_time_near_the_hosts_does_not_count(seconds, host_seconds, waited):
    assert replace(PROFILE.operations[0], seconds=seconds, host_seconds=host_seconds).waited_for_host is waited

"""Where profiles lie: what is found by name, used by itself, listed and refused."""

from dataclasses import replace

import pytest

from memorymark.errors import UsageError
from memorymark.profiles.stored import find_profile, fingerprint, install, profile_list, profiles_for, write
from support.profiles import SHIPPED, renamed

A10 = renamed(replace(SHIPPED, operations=SHIPPED.operations[:3]), "a10")


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_PROFILES", str(tmp_path / "own"))
    return tmp_path / "own"


def listed():
    return {one.name: (one.shipped, one.automatic) for one in profile_list().profiles}


def test_without_own_profiles_only_those_that_come_along_are_listed_and_none_is_used(own):
    assert listed() == {"h200": (True, False)}
    assert profiles_for(None, "a10") == profiles_for(None, "h200") == {}
    assert fingerprint(None, "a10") is None
    assert not own.exists()


def test_an_installed_profile_is_used_for_its_gpu_alone_until_told_not_to(own):
    assert install(A10) == own / "a10.json"

    assert listed() == {"a10": (False, True), "h200": (True, False)}
    assert list(profiles_for(None, "a10")) == ["a10"]
    assert profiles_for("none", "a10") == {}
    assert fingerprint(None, "a10") is not None
    assert fingerprint(None, "h200") is fingerprint("none", "a10") is None


def test_another_content_is_another_answer(own):
    install(A10)
    before = fingerprint(None, "a10")
    install(replace(A10, date="2027-01-01"))

    assert fingerprint(None, "a10") != before


def test_ones_own_profile_stands_before_that_which_comes_along(own):
    install(replace(SHIPPED, date="2027-01-01"))

    assert find_profile("h200").date == "2027-01-01"
    assert listed() == {"h200": (False, True)}


def test_a_profile_by_another_name_is_used_only_when_it_is_asked_for(own):
    write(A10, own / "slow-host.json")

    assert listed()["slow-host"] == (False, False)
    assert profiles_for(None, "a10") == {}
    assert profiles_for("slow-host", "a10") == {"a10": A10.to_dict()}


def test_a_profile_may_be_any_file(own, tmp_path):
    file = write(A10, tmp_path / "theirs.json")

    assert profiles_for(str(file), "A10") == {"a10": A10.to_dict()}


def test_another_gpus_profile_is_refused(own):
    with pytest.raises(UsageError, match='is of the NVIDIA H200, and gpu="a10" asks for another GPU') as caught:
        profiles_for("h200", "a10")

    assert (caught.value.code, caught.value.field) == ("conflict", "profile")


def test_an_unknown_name_is_refused_with_those_that_are_near(own):
    with pytest.raises(UsageError, match="there is no profile 'h20'; did you mean h200") as caught:
        profiles_for("h20", "h200")

    assert caught.value.allowed == ["h200"]


def test_what_is_no_profile_is_not_listed_and_harms_nothing(own):
    own.mkdir()
    (own / "a10.json").write_text("{")
    (own / "notes.txt").write_text("mine")

    assert listed() == {"h200": (True, False)}
    assert profiles_for(None, "a10") == {}


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"cannot be written: .*; name another file with output=") as caught:
        write(A10, tmp_path / "file" / "a10.json")

    assert caught.value.code == "not_writable"


def test_the_profile_that_comes_along_says_that_it_was_not_timed_for_this():
    assert SHIPPED.origin == "replayed"
    assert len(SHIPPED.operations) > 500

"""``memorymark calibrate`` and ``memorymark profiles``, and ``--profile`` of the commands that predict."""

import json

import pytest

from memorymark.cli.calibrate import Calibration
from memorymark.profiles.stored import describe, install, write
from memorymark.render.profiles import print_calibration
from support.command_line import document, needs_no_gpu, run_here
from support.profiles import SHIPPED, invented

PREDICT = ("predict", "bert", "--small", "-b", "256", "--quiet", "--json")


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_PROFILES", str(tmp_path / "own"))
    return tmp_path / "own"


def predicted(*arguments):
    result = run_here(*PREDICT, *arguments)
    assert result.returncode == 0, result.stderr
    return document(result)


def width(answer):
    low, high = answer["intervals"]["step_seconds"]
    return high / low


@needs_no_gpu
def test_without_a_gpu_calibrating_is_one_sentence(own):
    result = run_here("calibrate")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: there is no GPU here to calibrate; run `memorymark calibrate` on the machine that has it, and use the "
        "file that it writes here with --profile.\n"
    )
    assert not own.exists()


@needs_no_gpu
def test_without_a_gpu_programs_get_an_error_document():
    answer = document(run_here("calibrate", "--json"))

    assert (answer["status"], answer["code"], answer["field"]) == ("error", "no_device", "device")


def test_profiles_are_listed_for_people_and_programs(own):
    install(invented("a10", lambda _: 1.0, operations=SHIPPED.operations[:30]))
    shown, answer = run_here("profiles").stdout, document(run_here("profiles", "--json"))

    lines = [line.split() for line in shown.splitlines()]
    assert lines[1] == ["a10", "NVIDIA", "A10", "2026-01-01", "2.13.0", "30", "by", "itself"]
    assert lines[2][:3] == ["h200", "NVIDIA", "H200"]
    assert lines[2][-2:] == ["--profile", "h200"]
    assert str(own) in shown
    assert (answer["kind"], answer["folder"]) == ("profiles", str(own))
    assert [(one["name"], one["automatic"], one["shipped"]) for one in answer["profiles"]] == [
        ("a10", True, False),
        ("h200", False, True),
    ]


def test_predictions_use_ones_own_profile_and_say_so(own):
    plain = predicted("--gpu", "a10")
    install(invented("a10", lambda _: 2.0))
    corrected, uncorrected = predicted("--gpu", "a10"), predicted("--gpu", "a10", "--profile", "none")

    assert (plain["gpu_knowledge"], plain["gpu_profile"]) == ("datasheet", "")
    assert corrected["gpu_knowledge"] == "calibrated"
    assert corrected["gpu_profile"] == "NVIDIA A10, torch 2.13.0, 2026-01-01"
    assert corrected["step_seconds"] == pytest.approx(2 * plain["step_seconds"], rel=0.1)
    assert width(corrected) < width(plain)
    assert corrected["peak_allocated_bytes"] == plain["peak_allocated_bytes"]
    assert uncorrected["step_seconds"] == plain["step_seconds"]


def test_a_profile_in_a_file_is_used_and_named_in_the_report(own, tmp_path):
    file = write(invented("a10", lambda _: 2.0), tmp_path / "theirs.json")
    shown = run_here(*PREDICT[:-1], "--gpu", "a10", "--profile", str(file)).stdout

    assert "times are corrected by a profile (NVIDIA A10, torch 2.13.0, 2026-01-01)" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu", "a10", "--profile", "h200"], "--profile h200 is of the NVIDIA H200, and --gpu a10 asks for another"),
        (["--gpu", "h200", "--profile", "h20"], "there is no profile 'h20'; did you mean h200?"),
        (["--gpu", "h200", "--profile", "nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["--gpu", "h200", "--profile", "What?"], "'What?' is neither a profile's name nor a .json file"),
        (["--profile", "h200"], "--profile corrects predictions; name the GPU to predict for with --gpu."),
    ],
)
def test_a_profile_that_cannot_be_used_is_one_sentence(own, arguments, said):
    result = run_here("predict", "bert", "--small", "--quiet", *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {said}")


def test_a_new_profile_asks_anew_instead_of_the_history(own, tmp_path):
    asked = ("analyze", "bert", "--small", "--gpu", "a10", "--max-batch", "64", "--json")
    history = {"MEMORYMARK_DATABASE": f"sqlite:///{tmp_path}/history.db"}
    first = run_here(*asked, **history)
    again = run_here(*asked, **history)
    install(invented("a10", lambda _: 2.0))
    after = run_here(*asked, **history)

    assert "answered from the history" in again.stderr
    assert "answered from the history" not in after.stderr
    assert [json.loads(one.stdout)["info"]["gpu_knowledge"] for one in (first, again, after)] == [
        "datasheet",
        "datasheet",
        "calibrated",
    ]


def test_what_was_calibrated_is_told_with_what_does_not_count(own, capsys):
    profile = invented("a10", lambda _: 1.0)
    listed = describe(profile, install(profile))
    told = Calibration(profile=listed, failed=3, waited_for_host=2, seconds=61.4)
    print_calibration(listed, failed=3, waited_for_host=2, seconds=61.4)
    shown = " ".join(capsys.readouterr().out.split())

    assert told.to_dict()["kind"] == "calibration"
    assert told.to_dict()["name"] == "a10"
    assert "Timed 607 operations of the NVIDIA A10 in 61 s (3 could not run here, 2 were too short to count)." in shown
    assert f"Wrote {own / 'a10.json'}" in shown
    assert "Predictions for a10 use it from now on" in shown

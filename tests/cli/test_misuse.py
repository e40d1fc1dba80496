"""What is wrong with a command: one sentence, exit code 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.command_line import SMALL, document, needs_no_gpu, run_here


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("analyze", "brt"), "unknown model 'brt': did you mean bert?"),
        (("measure", "resnt50"), "did you mean resnet"),
        (("predict", "bert", "--precision", "fp61"), "unknown precision 'fp61': did you mean fp16?"),
        (
            ("predict", "bert", "--precision", "BFloat16", "--optimizer", "AdamW_8bit", "--gpu", "xy"),
            "unknown GPU 'xy'",
        ),
        (("analyze", "bert", "-b", "-3"), "--batch-size must be 1 or more, not -3"),
        (("measure", "bert", "-b", "0"), "--batch-size must be 1 or more, not 0"),
        (("validate", "backward", "bert", "-b", "0"), "--batch-size must be 1 or more, not 0"),
        (("validate", "compile", "bert", "-b", "-1"), "--batch-size must be 1 or more, not -1"),
        (("analyze", "bert", "--max-batch", "0"), "--max-batch must be 1 or more, not 0"),
        (("analyze", "bert", "--seq-len", "-4"), "--seq-len must be 1 or more, not -4"),
        (("analyze", "resnet", "--image-size", "99999"), "resnet takes 1 to 4096 pixels"),
        (("analyze", "bert", "--seq-len", "64,long"), "--seq-len takes a number, or several as in 128,512,2048"),
        (
            ("predict", "bert", "--seq-len", "64,128"),
            "--seq-len takes one number of tokens here, not '64,128'; `memory",
        ),
        (("measure", "bert", "--seq-len", "long"), "--seq-len takes one number of tokens here, not 'long'"),
        (("advise", "bert", "--seq-len", "64,128"), "`memorymark analyze` takes several"),
        (("analyze", "bert", "--seq-len", "64,4096"), "bert takes 1 to 512 tokens; --seq-len 4096 is out of range"),
        (
            ("analyze", "bert", "--seq-len", "64,128", "--all-gpus"),
            "a comparison of GPUs takes one length; give one --seq-len",
        ),
        (("analyze", "bert", "--lora", "-1"), "--lora must be 0 or more, not -1"),
        (("predict", "resnet", "--small", "--lora", "4"), "has no linear layers for LoRA to adapt"),
        (("analyze", "bert", "--accumulate", "0"), "--accumulate must be 1 or more, not 0"),
        (
            ("analyze", "bert", "--channels-last"),
            "--channels-last is for samples in pixels, and those of bert are in tokens",
        ),
        (("analyze", "bert", "--margin", "nan"), "--margin must be from 0 to below 1, not nan"),
        (("analyze", "bert", "--hours-per-run", "nan"), "--hours-per-run must be a number above 0, not nan"),
        (
            ("analyze", "bert", "--runs-per-year", "inf"),
            "--runs-per-year must be a number above 0 and at most 1000000000, not inf",
        ),
        (("analyze", "bert", "--people", "-1"), "--people must be 1 or more, not -1"),
        (("analyze", "bert", "--price-per-hour", "nan"), "--price-per-hour must be 0 or more, not nan"),
        (("analyze", "bert", "--device", "tpu"), "unknown device 'tpu'; use auto, cuda, cuda:N, mps or cpu"),
        (("measure", "bert", "--memory-gib", "-1"), "--memory-gib must be a number above 0, not -1"),
        (("measure", "bert", "--memory-gib", "nan"), "--memory-gib must be a number"),
        (("measure", "bert", "--memory-gib", "inf"), "--memory-gib must be a number"),
        (("measure", "bert", "--device", "cpu", "--time-limit", "-1"), "--time-limit must be a number"),
        (("measure", "bert", "--device", "cpu", "--time-limit", "inf"), "--time-limit must be a number"),
        (("measure", *SMALL, "--time-limit", "nan"), "--time-limit must be a number"),
        (("measure", "bert", "--device", "cpu", "--memory-gib", "9999"), "asks for 9,999.00 GiB, but CPU has"),
        (("analyze", "bert", "--gpu", "a100"), "unknown GPU 'a100': did you mean a100-40gb or a100-80gb?"),
        (
            ("predict", "vit-base", "--small", "--image-size", "5", "--gpu", "a10"),
            "vit-base cannot be trained on images of 5 x 5 pixels: RuntimeError: ",
        ),
        (
            ("measure", "convnext-tiny", "--small", "--image-size", "5", "--device", "cpu"),
            "convnext-tiny cannot be trained on images of 5 x 5 pixels: RuntimeError: ",
        ),
        (("analyze", "bert", "--gpu", "a10", "--device", "cuda"), "--gpu a10 asks for a prediction, --device cuda for"),
        (("predict", "bert", "--gpu", "a10", "--memory-gib", "24"), "asks for 24.00 GiB but NVIDIA A10 has 22.06 GiB"),
        (("predict", "bert", "--gpu", "a10", "-b", "0"), "--batch-size must be 1 or more, not 0"),
        (("predict", "bert", "--device", "cpu"), "only CUDA GPUs can be predicted, not cpu"),
        (("measure", "bert", "--gpu", "a10"), "measure runs on a device of this machine; drop --gpu"),
        (
            ("analyze", "bert", "--all-gpus", "--gpu", "a10"),
            "--all-gpus predicts for every GPU of the catalog; drop --gpu",
        ),
        (
            ("analyze", "bert", "--all-gpus", "--device", "cpu"),
            "--all-gpus predicts for every GPU of the catalog; drop",
        ),
        (
            ("analyze", "bert", "--all-gpus", "--memory-gib", "8"),
            "--all-gpus predicts for every GPU of the catalog; drop",
        ),
        (("analyze", "bert", "--all-gpus", "--price-per-hour", "2"), "give the prices of several as --prices"),
        (("analyze", "bert", "--gpu", "l4,a10", "--all-gpus"), "several GPUs are predicted for; drop --all-gpus"),
        (("analyze", "bert", "--gpu", "l4,a10", "--price-per-hour", "1"), "names 1 price for 2 GPUs"),
        (("analyze", "bert", "--gpu", "l4,a1000"), "unknown GPU 'a1000'"),
        (("analyze", "bert", "--gpu", "nowhere.json"), "nowhere.json cannot be read"),
        (("analyze", "bert", "--prices", "nowhere.csv"), "--prices: nowhere.csv cannot be read"),
        (("advise", "bert", "--gpu", "l4,a10"), "--gpu takes one GPU here; analyze compares several"),
        (("advise", "bert", "--gpu", "mi300x"), "only memory is predicted for the AMD Instinct MI300X"),
        (("predict", "bert", "--gpu", "l4,a10"), "--gpu takes one GPU here; analyze compares several"),
        (("analyze", "bert", "--all-gpus", "-b", "0"), "--batch-size must be 1 or more, not 0"),
        (
            ("advise", "bert", "--gpu", "a10", "--script", "/nowhere/fix.py"),
            "there is no folder /nowhere to write fix.py into",
        ),
        (("explain", "bert", "--gpu", "a10", "--html", "/nowhere/x.html"), "there is no folder /nowhere"),
        (("explain", "bert", "--gpu", "a10", "--snapshot", "/"), "/ is a folder; name a file in it"),
        (("matrix", "bert", "--gpu", "a10", "--svg", "/nowhere/x.svg"), "there is no folder /nowhere"),
        (("validate", "prediction", "bert", "--gpu", "a10"), "runs on a device of this machine; drop --gpu"),
        (("validate", "backward", "bert", "--gpu", "a10"), "runs on a device of this machine; drop --gpu"),
        (("validate", "compile", "bert", "--gpu", "a10"), "runs on a device of this machine; drop --gpu"),
        (("validate", "prediction", "bert", "--device", "cpu"), "validate prediction needs a CUDA GPU in this machine"),
        pytest.param(
            ("validate", "prediction", "bert"),
            "validate prediction needs a CUDA GPU in this machine",
            marks=needs_no_gpu,
        ),
        pytest.param(
            ("measure", "bert", "--device", "cuda"),
            "there is no CUDA device here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_is_one_sentence_and_exit_code_2(arguments, said):
    result = run_here(*arguments, "--quiet")

    sentence, *commands = result.stderr.splitlines()
    assert result.returncode == 2
    assert result.stdout == ""
    assert sentence.startswith("Error: ")
    assert said in sentence
    assert sentence.endswith(".")
    assert result.stderr.endswith("\n")
    assert commands == [] or (
        commands[0] == "Try:" and all(line.startswith(f"  memorymark {arguments[0]} ") for line in commands[1:])
    )


@pytest.mark.parametrize("arguments", [("analyze",), ("analyze", "bert", "--bogus"), ("frobnicate",)])
def test_what_the_parser_refuses_is_exit_code_2_without_a_traceback(arguments):
    result = run_here(*arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "brt", "--json"),
        ("measure", "bert", "-b", "0", "--json"),
        ("analyze", "bert", "--precision", "int8", "--json"),
    ],
    ids=" ".join,
)
def test_misuse_with_json_is_a_document(arguments):
    result = run_here(*arguments)

    assert result.returncode == 2
    assert result.stderr == ""
    assert document(result)["status"] == "error"
    assert document(result)["error"].endswith(".")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
@pytest.mark.parametrize("arguments", [("gpus",), ("gpus", "--json"), ("--version",)], ids=" ".join)
def test_a_full_disk_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "memorymark", *arguments]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=dict(os.environ))

    assert result.returncode == 1
    assert result.stderr == "Error: the disk is full; make room and look for the answer with `memorymark history`.\n"


@pytest.mark.skipif(os.name != "posix", reason="closes standard output as a shell does")
def test_a_closed_standard_output_is_no_error():
    result = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -m memorymark --version >&-', sys.executable], stderr=subprocess.PIPE, text=True
    )

    assert (result.returncode, result.stderr) == (0, "")

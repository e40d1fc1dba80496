import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer

import memorymark
from command_line import SMALL, document, needs_no_gpu, run_apart, run_here
from memorymark.catalog import all_gpus, all_models, find_gpu
from memorymark.cli import app
from memorymark.units import GIB
from memorymark.version import __version__

REQUEST_OPTIONS = [
    "--accumulate", "--attention", "--audio-seconds", "--batch-size", "-b", "--channels-last", "--compile", "--device",
    "--eval-mode",
    "--full", "--fused", "--gpu", "--gradient-checkpointing", "--image-size", "--json", "--lora", "--loss",
    "--memory-gib", "--optimizer", "--precision", "--quiet", "-q", "--revision", "--seq-len", "--small", "--task",
    "--tf32", "--time-limit", "--trust-remote-code",
]  # fmt: skip
MONEY_OPTIONS = ["--hours-per-run", "--people", "--price-per-hour", "--runs-per-year"]
# Scripts depend on these names: what is missing here breaks somebody, what is new belongs into this list.
INTERFACE = {
    "": ["--install-completion", "--show-completion", "--version"],
    "analyze": [
        "MODEL", *REQUEST_OPTIONS, *MONEY_OPTIONS, "--all-gpus", "--fresh", "--margin", "--max-batch", "--no-history",
        "--server",
    ],
    "advise": [
        "MODEL", *REQUEST_OPTIONS, *MONEY_OPTIONS, "--code", "--fresh", "--margin", "--max-batch", "--no-history",
        "--no-try-compile", "--script", "--server", "--try-compile",
    ],
    "measure": ["MODEL", *REQUEST_OPTIONS],
    "predict": ["MODEL", *REQUEST_OPTIONS],
    "validate": [],
    "validate backward": ["MODEL", *REQUEST_OPTIONS],
    "validate compile": ["MODEL", *REQUEST_OPTIONS],
    "validate prediction": ["MODEL", *(name for name in REQUEST_OPTIONS if name not in ("--batch-size", "-b"))],
    "watch": ["ARGS", "SCRIPT", "--json", "--save", "-m"],
    "models": ["--json"],
    "gpus": ["--json"],
    "doctor": ["--json"],
    "history": ["JOB", "--database", "--json", "--limit", "--model"],
    "compare": ["JOBS", "--database", "--json"],
    "report": ["JOB", "--database", "--json", "--output", "-o"],
    "serve": [
        "--allow-code", "--database", "--host", "--job-seconds", "--open", "--open-to-all", "--origin", "--port",
        "--prediction-workers", "--queue-size", "--quiet", "-q", "--token", "--worker-memory-gib",
    ],
}  # fmt: skip


def commands(command, path=""):
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}".strip())


def test_the_interface_is_what_it_was():
    found = {}
    for path, command in commands(typer.main.get_command(app)):
        names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
        found[path] = sorted(name if name.startswith("-") else name.upper() for name in names)

    assert found == {path: sorted(names) for path, names in INTERFACE.items()}


@pytest.mark.parametrize("path", INTERFACE)
def test_help_names_every_option(path):
    result = run_here(*path.split(), "--help")

    assert result.returncode == 0
    assert all(name in result.stdout for name in INTERFACE[path])


@pytest.mark.parametrize("command", ["", "analyze", "serve"])
def test_help_imports_no_torch(command):
    result = run_apart(*command.split(), "--help", command=("-X", "importtime", "-m", "memorymark"))

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert result.returncode == 0
    assert "memorymark" in imported
    assert imported.isdisjoint({"torch", "transformers", "numpy"})


@pytest.mark.parametrize("arguments", [(), ("validate",)])
def test_without_a_command_the_help_is_shown(arguments):
    assert "Usage:" in "".join((run_here(*arguments).stdout, run_here(*arguments).stderr))


def test_version():
    assert run_here("--version").stdout == f"memorymark {__version__}\n"


def test_the_listings_as_json():
    models, gpus = (document(run_here(name, "--json"))[name] for name in ("models", "gpus"))

    assert [model["id"] for model in models] == [entry.id for entry in all_models()]
    assert models[0].keys() >= {"id", "name", "description", "type", "huggingface_id", "parameters"}
    samples = {model["id"]: (model["sample_size"], model["sample_unit"], model["max_sample_size"]) for model in models}
    assert samples["bert"] == (128, "tokens", 512)
    assert samples["resnet"] == (224, "pixels", 4096)
    assert samples["whisper-small"][1] == "tokens"
    assert [gpu["id"] for gpu in gpus] == [entry.id for entry in all_gpus()]
    assert {"memory_bytes", "price", "prices", "here"} <= gpus[0].keys()


@pytest.mark.parametrize("columns", [120, 80, 60])
def test_the_names_of_models_are_whole_however_narrow_the_terminal_is(columns):
    shown = run_here("models", COLUMNS=str(columns)).stdout

    named = {name for entry in all_models() for name in (entry.id, entry.huggingface_id)}
    assert named <= set(shown.split())
    assert "…" not in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= columns


@pytest.mark.parametrize("listing", ["models", "gpus"])
def test_the_listings_for_people(listing):
    shown = run_here(listing, COLUMNS="80").stdout

    assert all(f"  {entry.id} " in shown for entry in {"models": all_models, "gpus": all_gpus}[listing]())


def test_doctor_finds_torch():
    result = run_here("doctor", "--json")

    checks = {check["name"]: check for check in document(result)["checks"]}
    assert result.returncode == 0
    assert (checks["torch"]["status"], checks["torch"]["found"].split()[0]) == ("ok", torch.__version__)
    assert all(check["advice"] for check in checks.values() if check["status"] != "ok")


def test_analyze_answers_on_stdout_and_tells_its_progress_on_stderr():
    result = run_here("analyze", *SMALL, "--max-batch", "4", "-b", "2", "--json")

    answer = document(result)
    assert result.returncode == 0
    assert (answer["max_batch_size"], answer["current_batch_size"], answer["limited_by"]) == (4, 2, "caller")
    assert (answer["source"], answer["device"], answer["max_batch_interval"]) == ("measured", "cpu", None)
    assert "searching the largest batch" in result.stderr
    assert len(re.findall(r"✓ batch \d+", result.stderr)) == len(answer["trials"])
    assert "\x1b" not in result.stdout + result.stderr


def test_the_report_for_people_with_no_progress():
    result = run_here("analyze", *SMALL, "--max-batch", "4", "-b", "2", "--quiet")

    assert (result.returncode, result.stderr) == (0, "")
    assert "as far as --max-batch allowed" in result.stdout
    assert "\x1b" not in result.stdout


def test_analyze_of_what_does_not_fit_is_exit_code_3_and_a_document_with_what_was_tried():
    result = run_here("analyze", "bert", "--device", "cpu", "--memory-gib", "0.01", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert answer["status"] == "error"
    assert "does not train within 10.2 MiB even at batch 1" in answer["error"]
    assert answer["trials"]
    assert not any(trial["fits"] for trial in answer["trials"])


def test_measure_of_what_does_not_fit_is_exit_code_3_and_a_trial():
    result = run_here("measure", *SMALL, "-b", "5000", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert (answer["batch_size"], answer["fits"], answer["failure"]["kind"]) == (5000, False, "memory")


def test_measure_gives_the_fields_of_a_trial():
    result = run_here("measure", *SMALL, "-b", "4", "--json", "--quiet")

    answer = document(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (4, True, "measured")
    assert answer["peak_allocated_bytes"] <= answer["peak_reserved_bytes"] <= answer["device_bytes"]
    assert sum(answer["breakdown"].values()) == answer["device_bytes"]
    assert answer["samples_per_second"] > 0


@pytest.fixture(scope="module")
def predicted():
    """A small stand-in predicted for the A10."""
    return run_here("analyze", "bert", "--small", "--gpu", "a10", "--json")


def test_analyze_predicts_for_the_gpu_that_is_named(predicted):
    answer = document(predicted)

    rows = {row["batch_size"]: row["success"] for row in answer["results"]}
    assert predicted.returncode == 0
    assert (answer["source"], answer["device"], answer["gpu_name"]) == ("predicted", "cuda", "NVIDIA A10")
    assert answer["gpu_total_gb"] == find_gpu("a10").torch_memory_bytes / GIB
    assert {trial["source"] for trial in answer["trials"]} == {"predicted"}
    assert (answer["limited_by"], answer["max_is_exact"]) == ("memory", True)
    assert (rows[answer["max_batch_size"]], rows[answer["max_batch_size"] + 1]) == (True, False)
    assert (answer["small"], answer["unknown_operations"]) == (True, [])


def test_advise_gives_a_document_and_a_script_that_runs(tmp_path, capsys):
    script = tmp_path / "fix.py"
    arguments = f"advise bert --gpu a10 --small --seq-len 8 -b 1 --max-batch 4 --no-history --json --script {script}"

    done = run_here(*arguments.split())

    best = document(done)["options"][0]
    assert best["gain"] > 1
    assert best["code"]["pytorch"].split("for batch", 1)[1] in script.read_text()
    written = script.read_text().replace('"cuda"', '"cpu"').replace("torch.cuda.synchronize()", "pass")
    exec(compile(written, "fix.py", "exec"), {"__name__": "__main__"})
    assert float(capsys.readouterr().out.removesuffix(" samples/s\n")) > 0


@pytest.mark.parametrize(
    ("batch_size", "name", "why"),
    [
        ("4", "fix.py", "nothing is worth changing, so there is nothing to write."),
        ("1", ".", "cannot be written (Is a directory); name another file."),
    ],
    ids=["nothing to change", "no place to write"],
)
def test_advice_without_a_script_is_given_all_the_same(tmp_path, batch_size, name, why):
    today = "--small --seq-len 8 --precision bf16 --fused --max-batch 4 --no-history --quiet"
    asked = ("advise", "bert", "--gpu", "a10", *today.split(), "-b", batch_size, "--script", str(tmp_path / name))

    report, answer = run_here(*asked), run_here(*asked, "--json")

    assert "today: bf16, fused AdamW" in report.stdout
    assert document(answer)["current_batch_size"] == int(batch_size)
    for done in (report, answer):
        assert done.returncode == 1
        assert done.stderr.startswith("No script: ")
        assert done.stderr.endswith(f"{why}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_script_is_for_the_device_and_the_model_that_the_numbers_are_of(tmp_path, capsys):
    script = tmp_path / "fix.py"
    asked = "advise bert --device cpu --memory-gib 0.1 --seq-len 8 -b 1 --max-batch 2 --no-history --json --script"

    done = run_here(*asked.split(), str(script))

    assert document(done)["small"]
    exec(compile(script.read_text(), "fix.py", "exec"), {"__name__": "__main__"})
    assert float(capsys.readouterr().out.removesuffix(" samples/s\n")) > 0


def test_a_predicted_maximum_comes_with_what_the_true_one_should_lie_between(predicted):
    answer = document(predicted)

    low, high = answer["max_batch_interval"]
    assert 0.8 * answer["max_batch_size"] < low < answer["max_batch_size"] < high < 1.2 * answer["max_batch_size"]


def test_a_prediction_recommends_a_batch_and_says_what_it_saves(predicted):
    answer = document(predicted)

    speeds = {row["batch_size"]: row["samples_per_second"] for row in answer["results"]}
    assert speeds[answer["recommended_batch_size"]] >= 0.985 * max(filter(None, speeds.values()))
    assert answer["speedup"] == speeds[answer["recommended_batch_size"]] / speeds[16] > 1
    assert answer["price"]["usd_per_hour"] == find_gpu("a10").price.usd_per_hour
    assert answer["cost_savings_per_run"] == pytest.approx(2 * 1.29 * (1 - 1 / answer["speedup"]))


@needs_no_gpu
def test_where_there_is_no_gpu_analyze_predicts_for_the_default_one(predicted):
    result = run_here("analyze", "bert", "--small", "--json", "--quiet")

    def numbers(answer):
        return {name: value for name, value in answer.items() if name not in ("seconds", "info", "request")}

    assert (result.returncode, result.stderr) == (0, "")
    assert numbers(document(result)) == numbers(document(predicted))


@needs_no_gpu
def test_where_there_is_no_gpu_measure_still_runs_on_the_cpu():
    answer = document(run_here("measure", "bert", "--seq-len", "8", "-b", "1", "--json", "--quiet"))

    assert (answer["source"], answer["fits"], answer["intervals"]) == ("measured", True, None)
    assert answer["breakdown"]["context_bytes"] == 0


def test_predict_gives_the_fields_of_a_trial_with_intervals():
    result = run_here("predict", "bert", "--small", "-b", "8", "--gpu", "h200", "--json", "--quiet")

    answer = document(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (8, True, "predicted")
    assert (answer["gpu_name"], answer["unknown_operations"]) == ("NVIDIA H200", [])
    assert answer["capacity_bytes"] == find_gpu("h200").usable_bytes
    assert sum(answer["breakdown"].values()) == answer["device_bytes"]
    assert answer["breakdown"]["context_bytes"] == find_gpu("h200").context_bytes[1]
    for name, (low, high) in answer["intervals"].items():
        assert low < answer[name] < high


def test_predict_of_what_does_not_fit_is_exit_code_3_and_a_trial():
    result = run_here("predict", "bert", "--small", "-b", "50000", "--gpu", "t4", "--json")

    answer = document(result)
    assert result.returncode == 3
    assert (answer["batch_size"], answer["fits"], answer["source"]) == (50_000, False, "predicted")
    assert answer["failure"]["kind"] == "memory"
    assert answer["failure"]["requested_bytes"] > answer["failure"]["free_bytes"]
    assert "predicting steps at batch 50000" in result.stderr


def test_all_gpus_are_listed_with_the_fastest_and_the_cheapest(predicted):
    result = run_here("analyze", "bert", "--small", "--all-gpus", "--json")

    answer = document(result)
    rows = {row["gpu"]: row for row in answer["gpus"]}
    costs = {gpu: row["usd_per_million_samples"] for gpu, row in rows.items() if row["price"]}
    alone = document(predicted)
    assert (result.returncode, answer["source"], answer["model_name"]) == (0, "predicted", "bert")
    assert sorted(rows) == sorted(entry.id for entry in all_gpus())
    fastest, cheapest = answer["fastest_candidates"], answer["cheapest_candidates"]
    assert fastest[0] == max(rows, key=lambda gpu: rows[gpu]["samples_per_second"]) == next(iter(rows))
    assert cheapest[0] == min(costs, key=costs.get)
    assert answer["fastest"] == (fastest[0] if len(fastest) == 1 else None)
    assert answer["cheapest"] == (cheapest[0] if len(cheapest) == 1 else None)
    assert all(f"{entry.name}: up to batch {rows[entry.id]['max_batch_size']}" in result.stderr for entry in all_gpus())
    for name in ("max_batch_size", "max_batch_interval", "recommended_batch_size", "price"):
        assert rows["a10"][name] == alone[name]


def test_a_compiled_step_cannot_be_predicted_which_is_one_sentence():
    result = run_here("predict", "bert", "--small", "--gpu", "a10", "--compile", "--quiet")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: torch.compile")
    assert "drop --compile" in result.stderr
    assert result.stderr.count("\n") == 1


def test_validate_backward_shows_that_the_backward_pass_runs():
    result = run_here("validate", "backward", "resnet", "--device", "cpu", "--json")

    answer = document(result)
    assert result.returncode == 0
    assert answer["verdict"] == ("PASS" if answer["ratio"] >= 2 else "WARN")
    assert answer["ratio"] == answer["forward_backward_bytes"] / answer["forward_bytes"] >= 1.5
    assert answer["full_step_bytes"] >= answer["forward_backward_bytes"]


def test_validate_compile_is_refused_where_compiled_memory_cannot_be_counted():
    result = run_here("validate", "compile", "resnet", "-b", "2", "--device", "cpu", "--json")

    assert result.returncode == 2
    assert "torch.compile cannot be measured on the CPU" in document(result)["error"]


def run_on_a_terminal(*arguments, **environment):
    """Everything a command writes to a terminal."""
    pty = pytest.importorskip("pty")
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "memorymark", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment)
    os.close(end)
    written = b""
    try:
        while chunk := os.read(terminal, 2**16):
            written += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    process.wait()
    os.close(terminal)
    return written.decode()


COLOR = re.compile(r"\x1b\[(\d+;)*(3\d|4\d|9\d)")


@pytest.mark.parametrize("arguments", [("doctor",), ("analyze", "brt")], ids=" ".join)
def test_a_terminal_gets_colors_unless_no_color_is_set(arguments, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert COLOR.search(run_on_a_terminal(*arguments))
    assert not COLOR.search(run_on_a_terminal(*arguments, NO_COLOR="1"))


def test_where_stdout_is_not_unicode_the_report_is_still_written():
    result = run_apart("doctor", PYTHONIOENCODING="ascii")

    assert result.returncode == 0
    assert "Traceback" not in result.stderr


AS_INSTALLED = ("-c", "import sys; from memorymark.cli import main; sys.argv[0] = 'memorymark'; main()")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("memorymark an", ["analyze"]),
        ("memorymark pre", ["predict"]),
        ("memorymark validate ", ["backward", "compile", "prediction"]),
        ("memorymark analyze be", ["bert", "bert-large"]),
        ("memorymark analyze bert --task ca", ["causal-lm"]),
        ("memorymark analyze bert --gpu a1", ["a10g", "a10", "a100-40gb", "a100-80gb"]),
        ("memorymark analyze bert --precision ", ["fp32", "bf16", "fp16"]),
        ("memorymark analyze bert --gradient", ["--gradient-checkpointing"]),
    ],
)
def test_the_shell_completes_commands_models_options_and_choices(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}

    result = run_apart(command=AS_INSTALLED, _MEMORYMARK_COMPLETE="complete_bash", **words)

    assert result.stdout.split() == offered


def test_the_completion_script_can_be_shown():
    result = run_apart(
        "--show-completion", "bash", command=AS_INSTALLED, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )

    assert result.returncode == 0
    assert "_MEMORYMARK_COMPLETE=complete_bash" in result.stdout


@pytest.mark.parametrize("name", ["random", "transformers"])
def test_a_file_in_the_working_directory_does_not_stand_in_for_a_library(name, tmp_path):
    work, scripts = tmp_path / "work", tmp_path / "scripts"
    work.mkdir()
    scripts.mkdir()
    (work / f"{name}.py").write_text("print('hi')\n")
    (scripts / "memorymark_script.py").write_text(AS_INSTALLED[1])
    source = str(Path(memorymark.__file__).parents[1])

    result = subprocess.run(
        [sys.executable, scripts / "memorymark_script.py", "measure", *SMALL, "-b", "1", "--json", "-q"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["fits"]


def test_several_lengths_give_the_largest_batch_of_each_and_the_one_to_plan_for():
    asked = ("analyze", "bert", "--gpu", "a10", "--small", "--seq-len", "16,64", "--max-batch", "64", "--quiet")

    found, shown = document(run_here(*asked, "--json")), run_here(*asked).stdout

    assert (found["seq_lens"], found["plan_for"], found["max_batch_size"]) == ([16, 64], 64, 64)
    assert [row["seq_len"] for row in found["lengths"]] == [16, 64]
    assert "several lengths" in shown
    assert "Plan for 64 tokens, the longest" in shown


def test_lora_is_in_the_report_and_says_how_much_is_trained():
    shown = run_here("predict", "bert", "-b", "2", "--gpu", "a10", "--small", "--lora", "4").stdout

    assert "LoRA rank 4" in shown
    assert re.search(r"[\d,]+ of [\d,]+ parameters are trained; the others are frozen\.", shown)

"""``memorymark advise``."""

from pathlib import Path

import pytest

from support.command_line import document, run_here


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
        ("4", "fix.py", "there is nothing to change, so there is no script to write."),
        pytest.param(
            "1",
            "/dev/full",
            "cannot be written (No space left on device); name another file.",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here"),
        ),
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

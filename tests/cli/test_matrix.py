import pytest

from support.command_line import document, run_here


@pytest.fixture(autouse=True)
def only_a_few_recipes(monkeypatch):
    """Each takes a trace."""
    monkeypatch.setattr("memorymark.advice.matrix.RECIPES", ((), ("bf16",)))


def test_a_matrix_is_a_document_with_a_cell_for_each_gpu_and_recipe(tmp_path):
    files = {form: tmp_path / f"matrix.{form}" for form in ("html", "svg")}
    options = [word for form, file in files.items() for word in (f"--{form}", str(file))]
    told = document(
        run_here("matrix", "resnet", "--small", "--gpu", "a10,h200", "--max-batch", "8", "--json", "--quiet", *options)
    )

    assert (told["kind"], told["gpus"], told["max_batch_size"]) == ("matrix", ["a10", "h200"], 8)
    assert [cell["max_batch_size"] for cell in told["rows"][0]["cells"]] == [8, 8]
    assert files["html"].read_text().startswith("<!doctype html>")
    assert files["svg"].read_text().startswith("<svg ")


def test_what_fits_nowhere_exits_with_3():
    limit = ("--memory-gib", "0.001", "--max-batch", "2")
    run = run_here("matrix", "resnet", "--small", "--gpu", "a10", *limit, "--quiet")
    assert run.returncode == 3

import pytest

from support.command_line import document, run_here


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained")
    files = {form: folder / f"out.{form}" for form in ("html", "svg")}
    options = [word for form, file in files.items() for word in (f"--{form}", str(file))]
    run = run_here("explain", "bert", "--small", "-b", "8", "--gpu", "h200", "--json", "--quiet", *options)
    return run, files


def test_an_explanation_is_a_document_whose_parts_add_up(explained):
    told = document(explained[0])
    timeline = told["timeline"]

    assert (told["kind"], told["gpu_name"], told["trial"]["batch_size"]) == ("explanation", "NVIDIA H200", 8)
    assert sum(module["total_bytes"] for module in told["modules"]) == told["trial"]["peak_allocated_bytes"]
    assert timeline["peak_bytes"] == told["trial"]["peak_allocated_bytes"]
    assert {len(timeline[name]) for name in ("moments", "operations", "modules")} == {len(timeline["moments"])}


def test_the_pictures_are_written(explained):
    _, files = explained
    assert files["html"].read_text().startswith("<!doctype html>")
    assert files["svg"].read_text().startswith("<svg ")


def test_a_batch_that_does_not_fit_is_explained_and_exits_with_3():
    run = run_here("explain", "bert", "--small", "-b", "64", "--gpu", "h200", "--memory-gib", "0.1", "--quiet")

    assert run.returncode == 3
    assert "Batch 64 does not fit" in " ".join(run.stdout.split())
    assert run.stdout.index("Batch 64 does not fit") < run.stdout.index("at the peak")
    assert "by module" in run.stdout


def test_a_file_that_cannot_be_written_is_misuse():
    run = run_here("explain", "bert", "--small", "--gpu", "h200", "--html", "/no/such/folder/page.html", "--quiet")

    assert run.returncode == 2
    assert "--html" in run.stderr

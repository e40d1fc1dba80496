"""``memorymark models``."""

import pytest

from memorymark.catalog import all_models
from support.command_line import document, run_here


def test_the_listing_as_json():
    models = document(run_here("models", "--json"))["models"]

    assert [model["id"] for model in models] == [entry.id for entry in all_models()]
    assert models[0].keys() >= {"id", "name", "description", "type", "huggingface_id", "parameters"}
    samples = {model["id"]: (model["sample_size"], model["sample_unit"], model["max_sample_size"]) for model in models}
    assert samples["bert"] == (128, "tokens", 512)
    assert samples["resnet"] == (224, "pixels", 4096)
    assert samples["whisper-small"][1] == "tokens"


@pytest.mark.parametrize("columns", [120, 80, 60])
def test_the_names_of_models_are_whole_however_narrow_the_terminal_is(columns):
    shown = run_here("models", COLUMNS=str(columns)).stdout

    named = {name for entry in all_models() for name in (entry.id, entry.huggingface_id)}
    assert named <= set(shown.split())
    assert "…" not in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= columns


def test_the_listing_for_people():
    shown = run_here("models", COLUMNS="80").stdout

    assert all(f"  {entry.id} " in shown for entry in all_models())

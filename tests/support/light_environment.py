"""An environment in which only the package and what it cannot do without are installed."""

import os
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def make_environment(folder):
    """A virtual environment with links to the packages that are installed here, if the package needs them."""
    venv.create(folder, with_pip=False, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    packages, lie_in = Path(paths["purelib"]), set()
    for name in needed_packages():
        found = distribution(name)
        lie_in.add(Path(found.locate_file("")).resolve())
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(found.locate_file(top))
    # Files count as a library's where they really lie: the folder above is on the path, and nothing in it is a module.
    seen = [str(ROOT / "src"), *(str(place.parent) for place in lie_in)]
    (packages / "memorymark.pth").write_text("\n".join(seen) + "\n")
    return str(Path(paths["scripts"]) / Path(sys.executable).name)


def needed_packages():
    """All that the package needs without extras, and what these need, as far as it is installed here."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found, wanted = set(), [Requirement(line) for line in declared]
    while wanted:
        requirement = wanted.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in found or not applies(requirement):
            continue
        found.add((name, extras))
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:  # such as CUDA's libraries, beside a torch for the CPU
            found.discard((name, extras))
            continue
        wanted += [one for one in map(Requirement, needs) if applies(one, extras)]
    return {name for name, _ in found}


def applies(requirement, extras=frozenset()):
    """Whether a requirement holds for this interpreter and these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


def run(python, *arguments, folder, **environment):
    """``memorymark ARGUMENTS`` in an environment; what it keeps is kept in a folder."""
    kept = {"MEMORYMARK_DATABASE": f"sqlite:///{folder}/history.db", "COLUMNS": "200", **environment}
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [python, "-m", "memorymark", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**outside, **kept},
    )

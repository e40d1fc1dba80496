"""An environment in which only the built package and what it cannot do without are installed."""

import os
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def make_environment(folder, wheel):
    """A virtual environment with the wheel, and with links to the packages here that it needs; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    python, packages = Path(paths["scripts"]) / Path(sys.executable).name, Path(paths["purelib"])
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    lie_in, tops = set(), {}  # several packages may share a folder, as those of NVIDIA do
    for found in map(distribution, needed_packages(packages)):
        lie_in.add(Path(found.locate_file("")).resolve())
        names = {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}
        tops |= {name: found.locate_file(name) for name in names}
    for name, place in tops.items():
        (packages / name).symlink_to(place)
    # Files count as a library's where they really lie: the folder above is on the path, and nothing in it is a module.
    (packages / "linked.pth").write_text("".join(f"{place.parent}\n" for place in lie_in))
    return str(python)


def needed_packages(packages):
    """All that the one package installed in a folder needs, and what these need, as far as it is installed here."""
    (package,) = distributions(path=[str(packages)])
    found, wanted = set(), [one for one in map(Requirement, package.requires) if applies(one)]
    while wanted:
        requirement = wanted.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in found:
            continue
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:  # such as CUDA's libraries, beside a torch for the CPU
            continue
        found.add((name, extras))
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
        [Path(python).with_name("memorymark"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**outside, **kept},
    )

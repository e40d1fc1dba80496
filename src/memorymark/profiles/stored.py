"""Where profiles lie: those that come with MemoryMark, and the user's own, which predictions use by themselves."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar, Literal

from memorymark.catalog import find_gpu
from memorymark.checks.nearest import did_you_mean, nearest
from memorymark.documents import Document
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.profiles.profile import Profile, read_profile
from memorymark.suggestions import meant, without

VARIABLE = "MEMORYMARK_PROFILES"
NONE = "none"
SHIPPED = Path(__file__).parent / "shipped"
SUFFIX = ".json"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ListedProfile(Document):
    """A profile by its name, without what was timed."""

    name: str
    """What it is called in questions."""
    shipped: bool
    """Whether it comes with MemoryMark; otherwise it is in the user's folder."""
    automatic: bool
    """Whether predictions for its GPU use it unless the question says otherwise."""
    gpu_id: str
    """The GPU's id in the catalog."""
    gpu_name: str
    """What the driver calls it."""
    driver: str
    """The version of the GPU's driver."""
    torch: str
    """The version of torch it was timed with."""
    date: str
    """The day it was timed."""
    operations: int
    """How many operations were timed."""
    host: bool
    """Whether the host's part of a step was timed too."""
    file: str = field(default="")
    """The file."""


@dataclass(frozen=True)
class ProfileList(Document):
    """The profiles of this machine."""

    kind: ClassVar[Literal["profiles"]] = "profiles"

    profiles: tuple[ListedProfile, ...]
    """The profiles: the user's own, then those that come with MemoryMark."""
    folder: str
    """Where ``memorymark calibrate`` puts the user's own."""


def own_folder() -> Path:
    """Returns the folder of the user's own profiles."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    from platformdirs import user_data_path

    return user_data_path("memorymark") / "profiles"


def profile_list() -> ProfileList:
    """Lists every profile that can be read."""
    own, shipped = _files(own_folder()), _files(SHIPPED)
    files = [*own.values(), *(file for name, file in shipped.items() if name not in own)]
    listed = [_listed(file) for file in files]
    return ProfileList(tuple(one for one in listed if one is not None), str(own_folder()))


def is_file_name(profile: str) -> bool:
    """Tells whether a profile is given as a file, not by its name."""
    return profile.endswith(SUFFIX) or any(separator and separator in profile for separator in (os.sep, os.altsep, "/"))


def find_profile(wanted: str) -> Profile:
    """Returns a profile by name, or from a file."""
    if is_file_name(wanted):
        return read_profile(Path(wanted))
    known = _known()
    if wanted not in known:
        near = nearest(wanted, list(known))
        raise UsageError(
            Message(
                "there is no profile {name!r}; {hint}{list.profiles} lists those here.",
                name=wanted,
                hint=did_you_mean(near),
            ),
            code="not_found",
            field="profile",
            given=wanted,
            allowed=list(known),
            proposals=meant("profile", near),
        )
    return read_profile(known[wanted])


def profiles_for(profile: str | None, gpu: str | None) -> dict[str, dict[str, Any]]:
    """Returns the profiles to use by their GPU's id, as documents: the named one, or all of the user's own.

    Raises if the named one is of another GPU than is asked for.
    """
    if profile == NONE:
        return {}
    if profile is None:
        return _automatic()
    found = find_profile(profile)
    if gpu is not None and find_gpu(gpu).id != found.gpu_id:
        raise UsageError(
            Message(
                "{profile:{name}} is of the {theirs}, and {gpu:{wanted}} asks for another GPU; change one of them.",
                name=profile,
                theirs=found.gpu_name,
                wanted=gpu,
            ),
            code="conflict",
            field="profile",
            given=profile,
            proposals=[without("profile")],
        )
    return {found.gpu_id: found.to_dict()}


def fingerprint(profile: str | None, gpu: str | None) -> str | None:
    """Returns a hash of the profiles that answer a question, or ``None`` if there are none."""
    try:
        used = profiles_for(profile, gpu)
    except UsageError:
        return None  # asking says what is wrong
    if gpu is not None:
        used = {one: document for one, document in used.items() if one == find_gpu(gpu).id}
    return hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest() if used else None


def install(profile: Profile) -> Path:
    """Writes a profile to the user's folder, from where predictions for its GPU take it."""
    return write(profile, own_folder() / f"{profile.gpu_id}{SUFFIX}")


def write(profile: Profile, file: Path) -> Path:
    """Writes a profile to a file, all of it or nothing; raises an error that says why it cannot."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, suffix=".part", delete=False) as written:
            json.dump(profile.to_dict(), written)
            written.write("\n")
        Path(written.name).replace(file)
    except OSError as error:
        raise not_writable(file, error) from None
    return file


def not_writable(file: Path, error: OSError) -> UsageError:
    """Returns the error for a profile, or its folder, that cannot be written."""
    return UsageError(
        Message("{file} cannot be written: {why}; name another file with {output}.", file=file, why=error.strerror),
        code="not_writable",
        field="output",
        given=str(file),
    )


def _automatic() -> dict[str, dict[str, Any]]:
    """Returns the user's own profiles that are called like their GPU."""
    found = {}
    for name, file in _files(own_folder()).items():
        profile = _readable(file)
        if profile is not None and profile.gpu_id == name:
            found[name] = profile.to_dict()
    return found


def _known() -> dict[str, Path]:
    return {**_files(SHIPPED), **_files(own_folder())}


def _files(folder: Path) -> dict[str, Path]:
    return dict(sorted(_named(folder)))


def _named(folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        files = list(folder.iterdir())
    except OSError:  # not there yet
        return
    for file in files:
        if file.suffix == SUFFIX and NAME.fullmatch(file.stem):
            yield file.stem, file


def _listed(file: Path) -> ListedProfile | None:
    profile = _readable(file)
    return None if profile is None else describe(profile, file)


def describe(profile: Profile, file: Path) -> ListedProfile:
    """Returns what is listed of the profile in a file."""
    return ListedProfile(
        name=file.stem,
        shipped=file.parent == SHIPPED,
        automatic=file.parent == own_folder() and profile.gpu_id == file.stem,
        gpu_id=profile.gpu_id,
        gpu_name=profile.gpu_name,
        driver=profile.driver,
        torch=profile.torch,
        date=profile.date,
        operations=len(profile.operations),
        host=profile.host is not None,
        file=str(file),
    )


def _readable(file: Path) -> Profile | None:
    try:
        return read_profile(file)
    except UsageError:
        return None

"""``memorymark profiles``: lists the profiles of GPUs that predictions can use."""

from __future__ import annotations

from memorymark.cli import options as o
from memorymark.profiles.stored import profile_list


def profiles(as_json: o.Json = False) -> None:
    """List the profiles of GPUs: your own from `memorymark calibrate`, and those that come with MemoryMark."""
    from memorymark.render.json import print_json
    from memorymark.render.profiles import print_profiles

    found = profile_list()
    if as_json:
        print_json(found.to_dict())
    else:
        print_profiles(found)

"""Which query of a detector is matched with which object. Only a run knows, but not one size depends on it.

As many are matched as there are objects. A trace matches the first queries, which needs no scipy either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, partialmethod
from typing import Any

MATCHES, NEEDS = "linear_sum_assignment", "requires_backends"
# Boxes are boxes, and those of objects lie where a query's edges reach.
CHECKED = ("generalized_box_iou", "translate_gt")
# D-FINE's loss compares the edges of each query: it is planned for as many on either side as there are in all.
COMPARING, COMPARED = "DFineLoss", "loss_local"
CORNERS = "center_to_corners_format"
MODULES = ("transformers.loss.", "transformers.models.")


@contextmanager
def first_queries_match(passing_checks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Matches objects with the first queries; checks of boxes pass, inside ``passing_checks``."""
    replaced = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(MODULES) or not (_matches(module) or name.startswith(MODULES[0])):
            continue
        replaced += [(module, one, vars(module).get(one)) for one in (MATCHES, *CHECKED, NEEDS, CORNERS)]
        if COMPARING in vars(module) and COMPARED in vars(vars(module)[COMPARING]):
            replaced.append((vars(module)[COMPARING], COMPARED, vars(vars(module)[COMPARING])[COMPARED]))
    for module, name, original in replaced:
        if name == MATCHES and _matches(module):
            setattr(module, MATCHES, _matched)
        elif name in CHECKED and original is not None:
            setattr(module, name, partial(_checked, original, passing_checks))
        elif name == NEEDS and original is not None and _matches(module):
            setattr(module, NEEDS, partial(_needed, original))
        elif name == CORNERS and original is None:  # it is only imported where there is Pillow
            setattr(module, CORNERS, _corners)
        elif name == COMPARED:
            setattr(module, name, partialmethod(_checked_in_class, original, passing_checks))
    try:
        yield
    finally:
        for module, name, original in replaced:
            if original is not None:
                setattr(module, name, original)
            elif name in vars(module):
                delattr(module, name)


def _matches(module: Any) -> bool:
    return any("HungarianMatcher" in name or name in (MATCHES, CHECKED[0]) for name in vars(module))


def _matched(costs: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    import numpy as np

    count = min(costs.shape)
    return np.arange(count), np.arange(count)


def _corners(boxes: Any) -> Any:
    from transformers.image_transforms import center_to_corners_format

    return center_to_corners_format(boxes)


def _checked(
    original: Callable[..., Any], passing_checks: Callable[[], AbstractContextManager[None]], *args: Any, **kwargs: Any
) -> Any:
    with passing_checks():
        return original(*args, **kwargs)


def _checked_in_class(
    self: Any, original: Callable[..., Any], passing_checks: Callable[[], AbstractContextManager[None]], *args: Any
) -> Any:
    with passing_checks():
        return original(self, *args)


def _needed(original: Callable[..., Any], owner: Any, backends: Any) -> None:
    others = [one for one in ([backends] if isinstance(backends, str) else backends) if one not in ("scipy", "vision")]
    if others:
        original(owner, others)

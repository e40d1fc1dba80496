"""GPUs and prices as people write them on the command line and in Python, as options of a question.

``l4,a10`` names several GPUs, ``my_gpu.json`` is a file that describes one, and several prices belong to several GPUs.
Over HTTP, where a service must not open a caller's files, each of these has an option of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from memorymark.catalog import own_gpu
from memorymark.catalog.own_gpu import LARGEST_FACTS_BYTES
from memorymark.checks.types import shown
from memorymark.errors import Code, UsageError
from memorymark.messages import Message
from memorymark.question.prices import read_prices

SUFFIX = ".json"


def with_gpu_options(given: Mapping[str, Any], *, several: bool = True) -> dict[str, Any]:
    """Returns the options with ``gpu``, ``price_per_hour`` and ``prices`` settled; ``several`` allows several GPUs."""
    options = dict(given)
    if isinstance(options.get("prices"), (str, PathLike)):
        options["prices"] = read_prices(fspath(options["prices"]))
    if "gpu" in options:
        options |= _gpus(options.pop("gpu"))
    if "compare_gpus" in options and not several:
        raise _wrong("{gpu} takes one GPU here; analyze compares several.", given["gpu"], "conflict")
    if "price_per_hour" in options:
        options |= _price(options.pop("price_per_hour"), options)
    return options


def _gpus(given: Any) -> dict[str, Any]:
    """Returns the options for what was given as the GPU: a name, a file, its content, or several of these."""
    names = _listed(given)
    if given is None:
        return {"gpu": None}
    if names is None:
        raise _wrong("{gpu} must be a string, or a list of several, not {given}.", given)
    described = [one for one in names if _is_description(one)]
    others = [one for one in names if not _is_description(one)]
    if len(described) > 1:
        raise _wrong("{gpu} takes one GPU of your own at a time; drop the others.", given, "conflict")
    wrong = next((one for one in others if not isinstance(one, str) or not one.strip()), None)
    if wrong is not None or not names:
        raise _wrong("{gpu} takes names of GPUs, as in l4,a10, not {given}.", names if wrong is None else wrong)
    facts = {"gpu_facts": _facts(described[0])} if described else {}
    if len(names) == 1 and (facts or isinstance(given, str)):
        return facts or {"gpu": others[0]}
    return {**facts, "compare_gpus": tuple(one.strip() for one in others)}


def _listed(given: Any) -> list[Any] | None:
    """Returns the GPUs that were given; ``None`` for what is no GPU, which the option's own check refuses."""
    if isinstance(given, str):
        return given.split(",") if "," in given else [given]
    if isinstance(given, (PathLike, Mapping)):
        return [given]
    return list(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else None


def _is_description(given: Any) -> bool:
    return isinstance(given, (PathLike, Mapping)) or (isinstance(given, str) and given.strip().endswith(SUFFIX))


def _facts(given: Any) -> dict[str, Any]:
    """Returns what a file, or an object, says of a GPU; raises if that is not enough."""
    facts = given if isinstance(given, Mapping) else _read(Path(fspath(given).strip()))
    own_gpu(facts)
    return dict(facts)


def _read(file: Path) -> Any:
    try:
        if file.stat().st_size > LARGEST_FACTS_BYTES:
            raise _wrong("{gpu}: {given} is too large to describe a GPU.", file)
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise _wrong(
            "{gpu}: {given} cannot be read: {why}; name a JSON file that describes a GPU.", file, why=why
        ) from None
    except ValueError:
        raise _wrong("{gpu}: {given} is not JSON; docs/cli.md shows what describes a GPU.", file) from None


def _price(given: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one price for one GPU, or the prices of several in the order in which these are named."""
    texts = given.split(",") if isinstance(given, str) else given
    if texts is None or isinstance(texts, (int, float)):
        return {"price_per_hour": _number(texts)}
    if not isinstance(texts, Iterable):
        raise _no_price(texts)
    prices = [_number(one) for one in texts]
    named = list(options.get("compare_gpus", ()))
    if len(prices) == 1 and not named:
        return {"price_per_hour": prices[0]}
    if "gpu_facts" in options or len(prices) != len(named):
        raise UsageError(
            Message(
                "{price_per_hour} names {prices} for {gpus}; give one for each, in the same order, or use {prices_of}.",
                prices="1 price" if len(prices) == 1 else f"{len(prices)} prices",
                gpus=f"{len(named)} GPUs" if len(named) > 1 else "one GPU",
                prices_of=Message("{prices}"),
            ),
            code="conflict",
            field="price_per_hour",
            given=given,
        )
    if options.get("prices") is not None:
        raise UsageError(Message("{price_per_hour} and {prices} exclude each other; drop one."), code="conflict")
    return {"prices": dict(zip(named, prices, strict=True))}


def _number(given: Any) -> Any:
    try:
        if isinstance(given, bool):
            raise _no_price(given)
        return float(given) if isinstance(given, str) else given
    except ValueError:
        raise _no_price(given) from None


def _no_price(given: Any) -> UsageError:
    return UsageError(
        Message("{price_per_hour} must be a number, or several for several GPUs, not {given}.", given=shown(given)),
        code="wrong_type",
        field="price_per_hour",
        given=given,
    )


def _wrong(template: str, given: Any, code: Code = "wrong_type", why: str = "") -> UsageError:
    said = str(given) if isinstance(given, PathLike) else shown(given)
    return UsageError(Message(template, given=said, why=why), code=code, field="gpu", given=said)

"""Runs when the watched script's Python starts, before the script: Python imports ``sitecustomize`` by itself.

That way Python runs the script exactly as it always would. This file first restores everything, so that neither the
script nor the processes it starts can see it, then arranges that torch is watched once it is imported.
"""

import importlib
import importlib.util
import os
import sys


def _undo() -> "tuple[str, str]":
    """Removes this folder and our variables; returns where the record goes and where the package is."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be one more import
    record, package = os.environ.pop("MEMORYMARK_WATCH_RECORD", ""), os.environ.pop("MEMORYMARK_WATCH_PACKAGE", "")
    before = os.environ.pop("MEMORYMARK_WATCH_PYTHONPATH", None)
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
    sys.path[:] = [path for path in sys.path if path != here]
    return record, package


def _import_the_real_one() -> None:
    """Imports the environment's own sitecustomize, if any, which ours has hidden."""
    ours = sys.modules.pop("sitecustomize")
    sys.path_importer_cache.pop(os.path.dirname(os.path.abspath(__file__)), None)  # noqa: PTH100, PTH120
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours  # the import of this module must not fail


def _watch(record: str, package: str) -> None:
    if "memorymark" not in sys.modules:
        init = os.path.join(package, "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location("memorymark", init, submodule_search_locations=[package])
        if spec is None or spec.loader is None:
            return
        module = importlib.util.module_from_spec(spec)
        sys.modules["memorymark"] = module
        spec.loader.exec_module(module)
    from memorymark.watch.inside import watch_this_process

    watch_this_process(record)


_record, _package = _undo()
try:
    if _record:
        _watch(_record, _package)
finally:
    _import_the_real_one()

"""Writes src/memorymark/keyword_types.py: the options of a question as types that editors and type checkers read.

python tools/generate_keywords.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from memorymark.question.flat import OPTIONS, names_of
from memorymark.question.options import Option
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage

FILE = Path(__file__).parents[1] / "src" / "memorymark" / "keyword_types.py"
TYPES = {"flag": "bool", "count": "int", "number": "float", "text": "str", "document": "dict[str, Any]"}
# What ``analyze`` and its like take by themselves, or decide.
APART = {
    "model",
    "config",
    "batch_size",
    "seq_len",
    "seq_lens",
    "all_gpus",
    "compare_gpus",
    "gpu_facts",
    "advise",
    "try_compile",
}
# Of a module that is there already: its optimizer, adapters and attention are its owner's.
OF_ITS_OWNER = {"optimizer", "lora", "attention", "loss"}
# What people write in more ways than one, besides what the option declares.
WRITTEN = {
    "gpu": "str | Path | Sequence[str] | Mapping[str, Any] | None",
    "price_per_hour": "float | Sequence[float] | None",
    "prices": "Mapping[str, float] | str | Path | None",
}
HEAD = '''"""The options of a question as keywords of Python. Made by tools/generate_keywords.py: do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from memorymark.events import OnEvent
'''


def typed(one: Option) -> str:
    """The type of what callers write."""
    if one.choices is not None:
        named = f"Literal[{', '.join(repr(value) for value in one.choices.values)}]".replace("'", '"')
        return f"{named} | bool" if one.alone else named
    if one.name in WRITTEN:
        return WRITTEN[one.name]
    return TYPES[one.type] + (" | None" if one.is_optional else "")


def declaration(name: str, doc: str, bases: str, options: Iterable[str]) -> str:
    lines = [f'    {option}: {typed(OPTIONS[option])}\n    """{OPTIONS[option].help}"""' for option in options]
    return f'\n\nclass {name}({bases}, total=False):\n    """{doc}"""\n\n' + "\n".join(lines) + "\n"


def module() -> str:
    """The text of the file."""
    recipe, target = names_of(Recipe), [name for name in names_of(Target) if name not in APART]
    sample = [name for name in names_of(Request) if name not in APART]
    asked = [name for name in names_of(Question, Usage) if name not in APART]
    own = [name for name in recipe if name not in OF_ITS_OWNER]
    run = (
        '\n\nclass RunOptions(TypedDict, total=False):\n    """How the work is done."""\n\n'
        '    time_limit: float\n    """Seconds after which one trial counts as hung."""\n'
        '    on_event: OnEvent\n    """Hears of every stage and trial."""\n'
    )
    parts = [
        HEAD,
        declaration("RecipeOptions", "How it is trained.", "TypedDict", recipe),
        declaration("TargetOptions", "Where it is trained.", "TypedDict", target),
        declaration("ModelOptions", "What is trained, and the shape of its samples.", "TypedDict", sample),
        run,
        declaration(
            "ModuleOptions", "What ``max_batch_size`` takes besides a module and its batches.", "TargetOptions", own
        ),
        declaration(
            "TrialOptions",
            "What ``predict`` and ``measure`` take besides the model and the batch size.",
            "ModelOptions, RecipeOptions, TargetOptions, RunOptions",
            ["seq_len"],
        ),
        declaration(
            "AnalysisOptions",
            "What ``analyze`` and ``advise`` take besides the model and its lengths.",
            "ModelOptions, RecipeOptions, TargetOptions, RunOptions",
            ["batch_size", *asked],
        ),
    ]
    return "".join(parts)


def main() -> None:
    """Writes the file, or with --check says whether it is what it would be."""
    if "--check" not in sys.argv:
        FILE.write_text(module(), encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != module():
        sys.exit(f"{FILE.name} is not what the options declare; run `make generated`.")


if __name__ == "__main__":
    main()

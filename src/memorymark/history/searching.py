"""Jobs by the words that people know them by."""

from __future__ import annotations

from sqlalchemy import ColumnElement, String, cast, func, or_

from memorymark.catalog import all_gpus, all_models
from memorymark.history.tables import jobs

RECIPE = ("precision", "optimizer")
SIZES = ("seq_len", "image_size", "audio_seconds")
ADVICE = "advice"
# Each word is looked for in every job.
MOST_WORDS = 8


def has_words(search: str) -> list[ColumnElement[bool]]:
    """One condition for each word: a job has it in its model, GPU, recipe, state, id or error, or it is its kind.

    Of a long search the first words count.
    """
    return [_has(word) for word in search.lower().split()[:MOST_WORDS]]


def _has(word: str) -> ColumnElement[bool]:
    columns = [jobs.c.id, jobs.c.model, jobs.c.target, jobs.c.state, jobs.c.error]
    columns += [jobs.c.question[("request", "recipe", name)].as_string() for name in RECIPE]
    found = [func.lower(column).contains(word, autoescape=True) for column in columns]
    # A length is that number, and no longer one that it is a part of.
    found += [cast(jobs.c.question[("request", name)].as_string(), String) == word for name in SIZES]
    # The history knows a model and a GPU by their ids, people by their names.
    models = [model.id for model in all_models() if word in f"{model.name} {model.huggingface_id}".lower()]
    gpus = [gpu.id for gpu in all_gpus() if word in gpu.name.lower()]
    if word in ADVICE:
        found.append(jobs.c.question["advise"].as_boolean())
    return or_(*found, jobs.c.model.in_(models), jobs.c.target.in_(gpus))

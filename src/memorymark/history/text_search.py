"""Searches jobs by words."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, or_

from memorymark.catalog import all_gpus, all_models
from memorymark.history.tables import jobs

# People copy the start of an id; a shorter word would match ids by chance.
SHORTEST_ID = 4
# Every word is searched in every job.
MOST_WORDS = 8


def has_words(search: str) -> list[ColumnElement[bool]]:
    """Returns one condition for each word: it is in a job's model, GPU, recipe, sample, kind, state, id or error.

    Only the first words of a long search count.
    """
    return [_has(word) for word in search.lower().split()[:MOST_WORDS]]


def _has(word: str) -> ColumnElement[bool]:
    columns = [jobs.c.model, jobs.c.model_name, jobs.c.target, jobs.c.kind, jobs.c.recipe_words]
    columns += [jobs.c.state, jobs.c.error]
    found = [func.lower(column).contains(word, autoescape=True) for column in columns]
    if len(word) >= SHORTEST_ID:
        found.append(jobs.c.id.startswith(word, autoescape=True))
    # A number must match a whole length, not a part of one.
    sample = " " + func.lower(func.replace(jobs.c.sample_words, ",", "")) + " "
    found.append(sample.contains(f" {word.strip(',')} ", autoescape=True))
    # The history stores the ids of models and GPUs; people search by their names.
    models = [model.id for model in all_models() if word in f"{model.name} {model.huggingface_id}".lower()]
    gpus = [gpu.id for gpu in all_gpus() if word in gpu.name.lower()]
    return or_(*found, jobs.c.model.in_(models), jobs.c.target.in_(gpus))

"""The memory of trainings that others published, as predicted for their GPUs; needs no GPU.

python benchmarks/published.py [--only=litgpt] [--record]
python benchmarks/published.py --then=4.46.3 [--only=opt] [--record]

Each row of tests/data/published_llm.csv is predicted, by the definition of memory that its source used, or has a reason
why not (benchmarks/published_cases.py). ``--only`` takes rows with these words in their source, table or model.
``--record`` writes the results to tests/data/published_predicted.json, for docs/published.md; with ``--only`` the
other rows stay as they were.

Models of transformers are predicted with the code that is installed. ``--then`` predicts the rows of transformers'
pages once more, with the version that the environment has, such as the one they were measured with: MemoryMark
supports none so old, but takes its models as any module. Such a version can be put before the installed one:

pip install --no-deps --target=OLD transformers==4.46.3 tokenizers==0.20.3 huggingface_hub==0.25.2
PYTHONPATH=OLD python benchmarks/published.py --then=4.46.3

if its check of its dependencies, which wants an older numpy too, is taken out of dependency_versions_check.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

from cases import flags, rounded, save, table, versions
from memorymark import Workload
from memorymark.catalog import find_model
from memorymark.catalog.gpus import GpuEntry
from memorymark.keywords import make_request
from memorymark.prediction.tracing.fake_step import TracedStep, trace_training
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.recipe import Recipe
from memorymark.results.trial import Trial
from memorymark.units import MIB
from published_cases import FILE, Question, Row, question_of, rows

RECORD = FILE.with_name("published_predicted.json")
# What NVML showed for a process with nothing but a context, as the source of these rows says.
CONTEXT_MIB = 1343
MEASURES = {
    "max_memory_allocated, GB": lambda trial: trial.peak_allocated_bytes / 1e9,
    "max_memory_allocated, MB": lambda trial: trial.peak_allocated_bytes / 1e6,
    "max_memory_reserved, bytes": lambda trial: trial.peak_reserved_bytes,
    "NVML used at the end, MiB": lambda trial: trial.peak_reserved_bytes / MIB + CONTEXT_MIB,
}
OUT_OF_MEMORY = "OOM"
IN_WORKLOAD = ("task", "seq_len", "attention", "loss")
THEN_MODELS = {"masked-lm": "AutoModelForMaskedLM", "causal-lm": "AutoModelForCausalLM"}


def predicted(row: Row, question: Question, *, then: bool = False) -> dict[str, Any]:
    """What is predicted for a row: the memory, whether it fits, and how far it is off."""
    recipe, step = traced(question, then)
    trial = _trial(step, recipe, question.gpu, question.batch)
    fits = trial.fits
    if not fits:  # what it would take
        trial = _trial(step, recipe, _endless(question.gpu), question.batch)
    said = float(MEASURES[row["measure"]](trial))
    off = None if row["memory"] == OUT_OF_MEMORY else said / float(row["memory"]) - 1
    return {"predicted": rounded(said), "fits": fits, "off": rounded(off)}


def _trial(step: TracedStep, recipe: Recipe, gpu: GpuEntry, batch: int) -> Trial:
    return PredictedProbe(step, recipe, gpu, allocator=recipe.allocator).try_from_start(batch)


def _endless(gpu: GpuEntry) -> GpuEntry:
    return replace(gpu, torch_memory_bytes=100 * gpu.torch_memory_bytes)


_TRACES: dict[str, TracedStep] = {}


def traced(question: Question, then: bool = False) -> tuple[Recipe, TracedStep]:
    """The recipe of a question and its traced step, which it may share with others."""
    if question.run is not None:
        workload, recipe = question.run.workload, _recipe(question.options)
    elif then:
        own = {
            name: value
            for name, value in question.options.items()
            if name not in ("task", "seq_len", "attention", "loss")
        }
        workload, recipe = (lambda: workload_then(question)), _recipe(own)
    else:
        from memorymark.models.workloads import workload_of

        # Which GPU it names does not matter for what is trained, and not all of these are in the catalog.
        request = make_request(question.model, {**question.options, "gpu": "h200", "small": False})
        workload, recipe = (lambda: workload_of(request)), request.recipe
    key = question.traced_as
    if key not in _TRACES:
        _TRACES[key] = trace_training(workload(), recipe, question.gpu.capability)
    return recipe, _TRACES[key]


def _recipe(options: dict[str, Any]) -> Recipe:
    names = {"accumulate": "accumulation_steps"}
    return Recipe(**{names.get(name, name): value for name, value in options.items()})


def workload_then(question: Question) -> Workload:
    """The same training of whatever transformers is installed."""
    import torch
    import transformers

    entry, options = find_model(question.model), question.options
    auto = getattr(transformers, THEN_MODELS[options["task"]])
    config = transformers.AutoConfig.for_model(entry.family, **entry.config)

    def batch(size: int, device: Any) -> dict[str, Any]:
        return {"input_ids": torch.randint(1, 1000, (size, options["seq_len"]), device=device)}

    return Workload(
        build=lambda: auto.from_config(config, attn_implementation=options["attention"]),
        batch=batch,
        loss=lambda model, given: model(**given).logits.sum(),
        name=question.model,
    )


def result(row: Row, then: bool) -> dict[str, Any] | None:
    """The row of the record, or nothing if it is not asked for."""
    question = question_of(row)
    known = {"source": row["source"], "number": int(row["number"])}
    if then:
        if row["source"] != "model docs" or isinstance(question, str):
            return None
        return {**known, "then": {**predicted(row, question, then=True), "transformers": flags()["then"]}}
    if isinstance(question, str):
        return {**known, "reason": question}
    return {**known, "stated": question.stated, **predicted(row, question)}


def line(row: Row, found: dict[str, Any]) -> list[object]:
    """A row of the printed table."""
    said = found.get("then") or found
    start = [row["source"], row["table"], row["model"], row["batch"], row["tokens"], row["attention"] or row["weights"]]
    if "reason" in said:
        return [*start, row["memory"], said["reason"], ""]
    off = "" if said["off"] is None else f"{100 * said['off']:+.2f} %"
    return [*start, row["memory"], f"{said['predicted']:g}" + ("" if said["fits"] else ", does not fit"), off]


@cache
def recorded() -> dict[str, Any]:
    """The record as it is."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"rows": []}


def record(found: list[dict[str, Any]]) -> None:
    """Writes what was found; rows that were not predicted stay as they were."""
    known = {(one["source"], one["number"]): one for one in recorded()["rows"]}
    for one in found:
        key = one["source"], one["number"]
        before = known.get(key, {})
        kept = {"then": before["then"]} if "then" in before and "then" not in one else {}
        known[key] = {**before, **one} if "then" in one else {**one, **kept}
    ordered = [known[key] for row in rows() if (key := (row["source"], int(row["number"]))) in known]
    made = recorded().get("made_with") if "then" in flags() else versions()
    lines = ",\n".join(f"  {json.dumps(one)}" for one in ordered)
    head = json.dumps({"made_with": made, "command": "python benchmarks/published.py --record"})[1:-1]
    RECORD.write_text(f'{{{head},\n "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def summarize(found: list[dict[str, Any]]) -> None:
    """Prints the errors of each source."""
    for source in dict.fromkeys(one["source"] for one in found):
        mine = [one.get("then") or one for one in found if one["source"] == source and "reason" not in one]
        for title, some in (("stated", [one for one in mine if one.get("stated", True)]), ("all", mine)):
            off = [abs(one["off"]) for one in some if one["off"] is not None]
            if off:
                print(f"{source}, {title}: {len(off)}, median {100 * median(off):.2f} %, worst {100 * max(off):.2f} %")


def main() -> None:
    """Predicts the rows that are asked for, and prints them."""
    asked, found, lines = flags(), [], []
    words, header = asked.get("only", "").split(","), ["source", "table", "model", "batch", "tokens", "", "published"]
    try:
        for row in rows():
            name = f"{row['source']} {row['table']} {row['model']}"
            if any(word in name for word in words) and (one := result(row, "then" in asked)):
                found.append(one)
                lines.append(line(row, one))
                if "reason" not in one:
                    print(*lines[-1], flush=True)
    finally:  # the table takes long
        if "record" in asked:
            record(found)
    save("published", table([*header, "predicted", "off by"], lines))
    summarize(found)


if __name__ == "__main__":
    main()

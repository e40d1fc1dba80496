"""What `memorymark watch` says of public training scripts, run unmodified with made-up data.

python benchmarks/watch_public.py --from=FOLDER [--only=mnist,vae] [--out=results.json]

With --out the results of earlier runs in that file are kept, and the table shows all.

FOLDER holds checkouts of the repositories below, each under its own name: examples (pytorch/examples), nanoGPT
(karpathy/nanoGPT), pytorch-image-models and accelerate and transformers (huggingface). The scripts need torchvision,
datasets, evaluate and timm. Small settings make each run on a CPU in a minute; the data, a tokenizer and configs of
small models are made up here, and nothing is downloaded. What a step is and how many samples it has follows from each
script's options and is compared with what was reported. Without a GPU there is no largest batch to check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import flags, machine, table
from watched.made_up import glue, image_folders, mnist_files, small_bert, small_gpt2, texts, token_files

RUN_SECONDS = 600


@dataclass(frozen=True)
class Script:
    """A script, its options, what makes its data, and the truth: steps, batch, batches in a step, samples."""

    repository: str
    path: str
    options: tuple[str, ...]
    prepare: Callable[[Path], None]
    steps: int
    batch_size: int
    samples: int
    micro_batches: int = 1
    keeps_outputs: bool | None = None


SCRIPTS = {
    "mnist": Script(
        "examples", "mnist/main.py", ("--epochs=1",), lambda at: mnist_files(at / "data", 1000, 100),
        steps=16, batch_size=64, samples=1000, keeps_outputs=False,
    ),
    "siamese_network": Script(
        "examples", "siamese_network/main.py", ("--epochs=1", "--batch-size=16", "--test-batch-size=40"),
        lambda at: mnist_files(at / "data", 160, 40), steps=10, batch_size=16, samples=160, keeps_outputs=False,
    ),
    "vae": Script(
        "examples", "vae/main.py", ("--epochs=2",), lambda at: mnist_files(at / "data", 1280, 128),
        steps=20, batch_size=128, samples=2560, keeps_outputs=True,
    ),
    "dcgan": Script(
        "examples", "dcgan/main.py",
        ("--dataset=folder", "--dataroot={data}/train", "--batchSize=8", "--niter=1", "--workers=0", "--ngf=16",
         "--ndf=16"),
        lambda at: image_folders(at / "data", 12, 64), steps=12, batch_size=8, samples=96, keeps_outputs=False,
    ),
    "imagenet": Script(
        "examples", "imagenet/main.py", ("{data}", "--arch=resnet18", "--batch-size=8", "--epochs=1", "--workers=0"),
        lambda at: image_folders(at / "data", 12, 64), steps=12, batch_size=8, samples=96, keeps_outputs=True,
    ),
    "word_language_model, LSTM": Script(
        "examples", "word_language_model/main.py", ("--data={data}", "--epochs=1", "--emsize=32", "--nhid=32"),
        lambda at: texts(at / "data", 21_000), steps=30, batch_size=20, samples=600, keeps_outputs=True,
    ),
    "word_language_model, Transformer": Script(
        "examples", "word_language_model/main.py",
        ("--data={data}", "--epochs=1", "--emsize=32", "--nhid=32", "--model=Transformer", "--use-optimizer",
         "--lr=0.001"),
        lambda at: texts(at / "data", 21_000), steps=30, batch_size=20, samples=600, keeps_outputs=False,
    ),
    "nanoGPT": Script(
        "nanoGPT", "train.py",
        (
            "--dataset={data}", "--out_dir={data}", "--device=cpu", "--compile=False", "--eval_iters=3",
            "--block_size=64", "--batch_size=6", "--n_layer=2", "--n_head=2", "--n_embd=64", "--max_iters=20",
            "--lr_decay_iters=20", "--eval_interval=100", "--gradient_accumulation_steps=4", "--dtype=float32",
        ),
        lambda at: token_files(at / "data", 20_000), steps=21, batch_size=6, samples=504, micro_batches=4,
        keeps_outputs=True,
    ),
    "timm": Script(
        "pytorch-image-models", "train.py",
        ("--data-dir={data}", "--model=resnet10t", "--num-classes=12", "--batch-size=8", "--epochs=1", "--workers=1",
         "--device=cpu", "--img-size=64", "--no-prefetcher", "--warmup-epochs=0", "--cooldown-epochs=0"),
        lambda at: image_folders(at / "data", 12, 64), steps=12, batch_size=8, samples=96, keeps_outputs=True,
    ),
    "accelerate, nlp_example": Script(
        "accelerate", "examples/nlp_example.py", ("--cpu",), glue,
        steps=36, batch_size=16, samples=576, keeps_outputs=True,
    ),
    "transformers, run_glue_no_trainer": Script(
        "transformers", "examples/pytorch/text-classification/run_glue_no_trainer.py",
        ("--task_name=mrpc", "--model_name_or_path=bert-base-cased", "--per_device_train_batch_size=8",
         "--gradient_accumulation_steps=2", "--num_train_epochs=1", "--max_length=32", "--pad_to_max_length"),
        glue, steps=12, batch_size=8, samples=192, micro_batches=2, keeps_outputs=True,
    ),
    "transformers, run_clm": Script(
        "transformers", "examples/pytorch/language-modeling/run_clm.py",
        ("--train_file={data}/train.txt", "--config_name=small-gpt2", "--tokenizer_name=bert-base-cased",
         "--do_train", "--output_dir={data}/out", "--per_device_train_batch_size=4", "--block_size=32",
         "--max_steps=20", "--use_cpu", "--report_to=none", "--save_strategy=no"),
        lambda at: (texts(at / "data", 21_000), small_bert(at / "work"), small_gpt2(at / "work"))[0],
        steps=20, batch_size=4, samples=80,
    ),
}  # fmt: skip


def watched(script: Script, checkouts: Path) -> dict[str, Any]:
    """What watching a script reported, or how it failed."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        work, data = at / "work", at / "data"
        for made in (work, data):
            made.mkdir()
        script.prepare(at)
        source = (checkouts / script.repository / script.path).resolve()
        for beside in source.parent.iterdir():  # some read files beside them, by names relative to the current folder
            if beside.name != "data" and not (work / beside.name).exists():
                (work / beside.name).symlink_to(beside)
        options = [option.replace("{data}", str(data)) for option in script.options]
        watch = [sys.executable, "-m", "memorymark", "watch", "--save", str(at / "report.json")]
        command = [*watch, source.name, *options]
        try:
            run = subprocess.run(
                command, cwd=work, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"ran longer than {RUN_SECONDS} s"}
        report = at / "report.json"
        if not report.exists() or run.returncode:
            return {"failed": f"exit code {run.returncode}: {(run.stderr or run.stdout)[-1500:]}"}
        document: dict[str, Any] = json.loads(report.read_text())
        return document


def environment() -> dict[str, str]:
    source = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    return {**os.environ, **offline, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false", "WANDB_MODE": "disabled"}


def commit(checkout: Path) -> str:
    asked = ["git", "-C", str(checkout), "log", "-1", "--format=%h"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def loop(seen: dict[str, Any]) -> str:
    """The loop as it was recognised."""
    words = [seen["framework"] or "torch", " + ".join(one["name"] for one in seen["optimizers"])]
    words.append("data loader" if seen["loader"] else "no loader")
    return ", ".join(words)


def batch(size: int | None, micro_batches: int) -> str:
    return f"{size} x {micro_batches}" if micro_batches > 1 else str(size)


KEEPS = {True: "yes", False: "no", None: "unknown"}


def row(name: str, script: Script, seen: dict[str, Any]) -> list[object]:
    if "failed" in seen:
        lines = seen["failed"].splitlines()
        said = next((line for line in reversed(lines) if "Error" in line), lines[0])
        return [name, f"did not run: {said.strip()[:100]}", *[""] * 6]
    where = f", {('first', 'second', 'third')[seen['batch_dimension']]} dimension, by {seen['batch_basis']}"
    true_batch = batch(script.batch_size, script.micro_batches)
    findings = ", ".join(f"{one['kind']} {one['gain']}" for one in seen["findings"]) or "none"
    right = (
        (seen["steps"], seen["batch_size"], seen["micro_batches"], seen["samples"])
        == (script.steps, script.batch_size, script.micro_batches, script.samples)
    )  # fmt: skip
    return [
        name,
        f"{seen['steps']} ({script.steps})",
        f"{batch(seen['batch_size'], seen['micro_batches'])} ({true_batch}){where}",
        f"{seen['samples']} ({script.samples})",
        loop(seen),
        f"{KEEPS[seen['keeps_outputs']]} ({KEEPS[script.keeps_outputs]})",
        findings,
        "right" if right else "wrong",
    ]


def main() -> None:
    given = flags()
    checkouts = Path(given["from"])
    only = given["only"].split(",") if "only" in given else []
    chosen = {name: script for name, script in SCRIPTS.items() if not only or any(part in name for part in only)}
    out = Path(given["out"]) if "out" in given else None
    results = json.loads(out.read_text()) if out is not None and out.exists() else {}
    for name, script in chosen.items():
        results[name] = watched(script, checkouts)
        print(f"{name}: {json.dumps(results[name])[-1500:] if 'failed' in results[name] else 'ran'}", flush=True)
        if out is not None:
            out.write_text(json.dumps(results, indent=1))
    done = {name: script for name, script in SCRIPTS.items() if name in results}
    used = sorted({script.repository for script in done.values()})
    print(machine())
    print(", ".join(f"{name} {commit(checkouts / name)}" for name in used))
    columns = ["script", "steps (true)", "batch (true)", "samples (true)", "loop", "keeps outputs (true)"]
    columns += ["findings", ""]
    print(table(columns, [row(name, script, results[name]) for name, script in done.items()]))


if __name__ == "__main__":
    main()

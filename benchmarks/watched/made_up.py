"""Made-up data in the forms that public training scripts read."""

from __future__ import annotations

import csv
import json
import random
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

WORDS = [f"word{number}" for number in range(200)]
LABELS = 2
TRAINING_PAIRS, HELD_BACK_PAIRS = 192, 32
METRIC = """
import datasets
import evaluate


class Metric(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(
            description="", citation="",
            features=datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}),
        )

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references)}
"""


def mnist_files(folder: Path, training: int, held_back: int) -> None:
    """MNIST's files, with noise for digits."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in (("train", training), ("t10k", held_back)):
        images = struct.pack(">IIII", 2051, count, 28, 28) + random.randbytes(count * 28 * 28)
        labels = struct.pack(">II", 2049, count) + bytes(index % 10 for index in range(count))
        (raw / f"{name}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(labels)


def image_folders(folder: Path, classes: int, side: int) -> None:
    """Images in a folder for each class, as torchvision and timm read them."""
    from PIL import Image

    for split, count in (("train", 8), ("val", 1), ("validation", 1)):
        for label in range(classes):
            inside = folder / split / f"class{label:02d}"
            inside.mkdir(parents=True)
            for index in range(count):
                Image.frombytes("RGB", (side, side), random.randbytes(3 * side * side)).save(inside / f"{index}.jpg")


def texts(folder: Path, words: int) -> None:
    """Text files of so many words, ends of lines included."""
    folder.mkdir(exist_ok=True)
    for name, count in (("train", words), ("valid", words // 10), ("test", words // 10)):
        lines = [" ".join(random.choices(WORDS, k=9)) for _ in range(count // 10)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


def token_files(folder: Path, tokens: int) -> None:
    """nanoGPT's files."""
    for name in ("train", "val"):
        (folder / f"{name}.bin").write_bytes(array("H", (random.randrange(1000) for _ in range(tokens))).tobytes())


def glue(at: Path) -> None:
    """A small BERT, pairs of sentences and a metric, in folders with the names that scripts ask the hub for."""
    work = at / "work"
    small_bert(work)
    data = work / "nyu-mll" / "glue"
    data.mkdir(parents=True)
    for split, count in (("train", TRAINING_PAIRS), ("validation", HELD_BACK_PAIRS)):
        _pairs(data / f"{split}.csv", count)
    files = "".join(f"  - split: {split}\n    path: {split}.csv\n" for split in ("train", "validation"))
    classes = "    dtype:\n      class_label:\n        names:\n          '0': 'no'\n          '1': 'yes'\n"
    texts_of_pairs = "".join(f"  - name: {name}\n    dtype: string\n" for name in ("sentence1", "sentence2"))
    columns = f"{texts_of_pairs}  - name: label\n{classes}  - name: idx\n    dtype: int64\n"
    features = f"dataset_info:\n  config_name: mrpc\n  features:\n{columns}"
    (data / "README.md").write_text(f"---\n{features}configs:\n- config_name: mrpc\n  data_files:\n{files}---\n")
    for name in ("glue", "accuracy"):
        (work / name).mkdir()
        (work / name / f"{name}.py").write_text(METRIC)


def small_bert(work: Path) -> None:
    """A BERT of two small layers with random weights, and its tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    folder = work / "bert-base-cased"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertForSequenceClassification(BertConfig(vocab_size=len(vocabulary), **small)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))


def small_gpt2(work: Path) -> None:
    """The config of a GPT-2 of two small layers."""
    from transformers import GPT2Config

    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3}
    GPT2Config(vocab_size=len(WORDS) + 5, **small).save_pretrained(work / "small-gpt2")


def _pairs(path: Path, count: int) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sentence1", "sentence2", "label", "idx"])
        for index in range(count):
            rows.writerow([_sentence(), _sentence(), index % LABELS, index])


def _sentence(lengths: Sequence[int] = (6, 12)) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(*lengths)))

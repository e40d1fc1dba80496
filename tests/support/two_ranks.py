"""One of two real ranks on the CPU: runs the code that is pasted, and prints what it was made of and what it sent.

python two_ranks.py PORT CODE.py PORT CODE.py ...
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

WIDTH, LAYERS, WORDS = 128, 3, 1000


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(x)))


class Net(torch.nn.Module):
    """Embeddings and blocks of more than a megabyte, so that DDP has two buckets."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, 3)

    def forward(self, ids, labels=None):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x.mean(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels)}


class Output(dict):
    __getattr__ = dict.__getitem__


class WithLoss(Net):
    def forward(self, ids, labels=None):
        return Output(super().forward(ids, labels))


def small_llama():
    """A decoder that transformers has a plan for, with the same weights in each process."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    facts = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**facts, num_hidden_layers=LAYERS, vocab_size=200))


def make_texts(size, device):
    ids = torch.randint(0, 200, (size, 16), device=device)
    return {"input_ids": ids, "labels": ids}


def make_batch(size, device):
    return {
        "ids": torch.randint(0, WORDS, (size, 5), device=device),
        "labels": torch.zeros(size, dtype=torch.long, device=device),
    }


class Sent(TorchDispatchMode):
    """Counts collectives by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(kind, "_local_tensor") or hasattr(kind, "trigger_wait") for kind in types):
            return NotImplemented
        if func.namespace in ("c10d", "_c10d_functional") and "wrap_tensor" not in str(func):  # which sends nothing
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


# Which model and batches a code is for, by the start of its name.
MODELS = {"tensor": (small_llama, make_texts)}


def main(code: str, build=WithLoss, batch=make_batch) -> None:
    """Trains three steps and prints the last's collectives, and the sizes of what the rank keeps."""
    counted = []

    def make_loader(size):
        for _ in range(3):  # DDP orders its buckets anew in the second
            sent = Sent()
            with sent:
                yield batch(size, torch.device("cpu"))
            counted.append(sent.counts)

    place = {"model": build(), "make_loader": make_loader, "LEARNING_RATE": 1e-3}
    exec(compile(code, "pasted", "exec"), place)
    model, optimizer = place["model"], place["optimizer"]
    parts = [list(getattr(p, "_local_tensor", p).shape) for p in (*model.parameters(), *model.buffers())]
    state = getattr(optimizer, "optim", optimizer).state.values()
    kept = sum(getattr(s["exp_avg"], "_local_tensor", s["exp_avg"]).numel() for s in state)
    sys.stdout.write(
        json.dumps({"parts": sorted(parts), "sent": counted[-1], "state": kept, "rank": dist.get_rank()}) + "\n"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    for port, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        os.environ["MASTER_PORT"] = port
        code = Path(name)
        main(code.read_text(encoding="utf-8"), *MODELS.get(code.stem.partition("_")[0], ()))

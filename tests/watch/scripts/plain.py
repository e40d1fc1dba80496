"""A training loop as people write them; options make it starve, fail or wait to be killed."""

import pickle
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        if "--starve" in sys.argv:
            time.sleep(0.005)
        if "--broken-sample" in sys.argv and index == 100:
            raise ValueError("sample 100 is broken")
        return torch.full((8,), float(index)), index % 4


def main():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    workers = {"num_workers": 1, "multiprocessing_context": "spawn"} if "--spawn" in sys.argv else {}
    for inputs, labels in DataLoader(Samples(), batch_size=8, **workers):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert isinstance(pickle.loads(pickle.dumps(Samples())), Samples)
    print("arguments", sys.argv[1:], "name", __name__, "path", sys.path[0])
    if "--wait" in sys.argv:
        print("ready", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main()

"""A plain loop."""

import torch
from common import Samples, StepClock, arguments, build
from torch.utils.data import DataLoader


def main() -> None:
    given = arguments()
    model = build(given).to(given.device)
    options = {"fused": True} if given.fused else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **options)
    loader = DataLoader(
        Samples(given), given.batch_size, num_workers=given.workers, pin_memory=given.device == "cuda", drop_last=True
    )
    clock = StepClock(given)
    for index, batch in enumerate(loader, 1):
        batch = {name: tensor.to(given.device, non_blocking=True) for name, tensor in batch.items()}
        with torch.autocast(given.device, dtype=torch.bfloat16, enabled=given.bf16):
            loss = model(**batch).loss / given.accumulate
        loss.backward()
        if index % given.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            clock.step()
    clock.finish()


if __name__ == "__main__":
    main()

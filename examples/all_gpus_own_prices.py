"""Find the cheapest GPU for a training at the prices that you pay.

Run it with ``python all_gpus_own_prices.py``. The catalog has list prices; yours are in ``USD_PER_HOUR``.
"""

import torch
from torch import nn

import memorymark as mm

USD_PER_HOUR = {"t4": 0.35, "l4": 0.60, "a10": 0.90, "a100-80gb": 1.80, "h100": 2.90}
TOKENS, WIDTH = 256, 512

workload = mm.Workload(
    build=lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 8, batch_first=True), num_layers=2),
    batch=lambda size, device: {"src": torch.rand(size, TOKENS, WIDTH, device=device)},
    loss=lambda model, batch: model(**batch).square().mean(),
    name="two layers",
)
comparison = mm.analyze(workload, all_gpus=True, precision="fp16")


def usd_per_million(one):
    return USD_PER_HOUR[one.gpu_id] / 3600 / one.samples_per_second * 1e6


print("GPU                 batch  samples/s  $ a million samples")
priced = [one for one in comparison.contenders if one.gpu_id in USD_PER_HOUR and one.samples_per_second]
for one in sorted(priced, key=usd_per_million):
    speed, cost = one.samples_per_second, usd_per_million(one)
    print(f"{one.gpu_name:<18}{one.recommended_batch_size:>7}{speed:>11,.0f}{cost:>21.2f}")

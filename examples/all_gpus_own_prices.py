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
comparison = mm.analyze(workload, gpu=list(USD_PER_HOUR), prices=USD_PER_HOUR, precision="fp16")

print("GPU                 batch  samples/s  $ a million samples")
for one in sorted(comparison.contenders, key=lambda one: one.usd_per_million_samples):
    speed, cost = one.samples_per_second, one.usd_per_million_samples
    print(f"{one.gpu_name:<18}{one.recommended_batch_size:>7}{speed:>11,.0f}{cost:>21.2f}")

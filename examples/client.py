"""Ask a MemoryMark service, as a laptop asks the machine with the GPUs.

Start a service with ``memorymark serve``, then run ``python client.py``. For a service elsewhere, set
``MEMORYMARK_SERVER`` to its address and ``MEMORYMARK_TOKEN`` to its token.
"""

import sys

import memorymark as mm

client = mm.Client()
try:
    result = client.analyze("distilbert", gpu="l4", precision="bf16", batch_size=32)
except mm.MemoryMarkError as error:
    sys.exit(str(error))

print(f"DistilBERT on an L4, {result.source}")
print(f"largest batch: {result.max_batch_size}")
print(f"train with:    {result.recommended.batch_size}, {result.speedup:.2f}x faster than batch 32")

"""Fail the build if a training would exceed the memory of its GPU.

Run it with ``python ci_gate.py``, or for another batch size with ``python ci_gate.py 4096``. It needs no GPU and exits
with 1 if the batch is not sure to fit.
"""

import sys

import memorymark as mm

MODEL, GPU, PRECISION = "distilbert", "l4", "bf16"
batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 256

try:
    result = mm.analyze(MODEL, gpu=GPU, precision=PRECISION)
except mm.DoesNotFitError as error:
    sys.exit(str(error))

# The prediction comes with an interval. A gate must hold for its lower end.
surely_fits, _ = result.max_batch_interval
if batch_size > surely_fits:
    sys.exit(f"FAILED: {MODEL} at batch {batch_size} may exceed the memory of an {GPU}; use at most {surely_fits}.")
print(f"OK: {MODEL} trains at batch {batch_size} on an {GPU}; up to {surely_fits} is sure to fit.")

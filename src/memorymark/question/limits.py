"""The largest numbers that make sense in a question."""

from __future__ import annotations

# A batch, a length, a count.
NO_LIMIT = 2**31 - 1
# Samples or tokens of a whole training.
LARGEST_JOB = 10**18
# Hours, runs, dollars.
LARGEST_AMOUNT = 1e9
# GiB of memory.
LARGEST_MEMORY_GIB = 1e6
# Characters of a name.
LONGEST_NAME = 200
# Lengths in one question.
MOST_LENGTHS = 32
# GPUs that train together.
MOST_GPUS = 16_384

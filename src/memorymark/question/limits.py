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
# Characters of the path of a file.
LONGEST_PATH = 1000
# Lengths in one question.
MOST_LENGTHS = 32
# GPUs in one question.
MOST_GPUS = 100
# GPUs that train together.
MOST_TOGETHER = 16_384

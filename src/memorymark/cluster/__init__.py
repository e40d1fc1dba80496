"""A Ray cluster: its nodes, their GPUs, and workers that run on them. Only here and in ``sweep/`` is Ray known."""

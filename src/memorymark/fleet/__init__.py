"""Who wastes what on many GPUs, by what monitoring and schedulers recorded. Reads only and needs no torch."""

"""The service: one MemoryMark beside the GPUs, used from browsers and scripts."""

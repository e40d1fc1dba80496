"""MemoryMark inside somebody's training: what it sees there, and what it makes of it."""

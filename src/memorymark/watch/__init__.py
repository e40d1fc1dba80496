"""MemoryMark inside a running training: what it observes and concludes."""

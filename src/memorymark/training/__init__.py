"""One training step: what is trained, how, and what can go wrong."""

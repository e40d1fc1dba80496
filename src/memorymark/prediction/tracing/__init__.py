"""A training step traced on fake tensors."""

"""Corrects predicted times by a profile of the GPU."""

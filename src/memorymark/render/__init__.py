"""Renderers: each turns results into one form for people or programs, and knows nothing else."""

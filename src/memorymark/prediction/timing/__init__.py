"""Predicts how long a traced step takes."""

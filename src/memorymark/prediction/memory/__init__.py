"""Predicts how much memory a traced step takes."""

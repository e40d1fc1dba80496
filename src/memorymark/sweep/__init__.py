"""Sweeps: a grid of questions, asked together, on this machine or on a Ray cluster."""

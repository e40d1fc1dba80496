"""Advice on what to change about a training: recipes ranked by their gain, with code to paste."""

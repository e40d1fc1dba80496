"""Renderers: each turns results into one output format, for people or programs."""

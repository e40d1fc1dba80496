"""Checks on values before they become part of a question."""

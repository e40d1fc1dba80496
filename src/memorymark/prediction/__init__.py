"""Predicts training steps without running them."""

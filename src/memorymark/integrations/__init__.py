"""Callbacks for transformers' Trainer and for Lightning."""

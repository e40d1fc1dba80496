"""Profiles: what ``memorymark calibrate`` timed on a GPU, which makes predictions for that GPU better."""

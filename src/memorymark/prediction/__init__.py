"""What would happen, without running it."""

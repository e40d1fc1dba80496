"""The process that runs training steps, and how its parent starts, calls and ends it."""

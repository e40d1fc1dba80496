"""Results: trials, and what is computed from them. No torch."""

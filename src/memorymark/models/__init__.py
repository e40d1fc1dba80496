"""Any model: what its name means, its config, its head, its synthetic batches. Importing this imports no torch."""

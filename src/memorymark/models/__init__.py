"""Any model: the meaning of its name, its config, its head, its synthetic batches. Importing this imports no torch."""

"""From a question to its answer: search for the largest batch, time batch sizes, sum up."""

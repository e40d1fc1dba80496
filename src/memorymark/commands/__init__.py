"""One short file per command: read the options, call the engine, hand the result to a renderer."""

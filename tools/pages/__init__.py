"""The figures and tables of the documentation, made from what was recorded on a GPU."""

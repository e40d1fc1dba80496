"""The migrations of the history's tables: one module for each change, applied in order and never edited again.

A new change is a module ``mNNNN_….py`` with a function ``upgrade(connection)``, one more line in ``runner.MIGRATIONS``,
and the same change in ``tables``. It runs in one transaction, on SQLite as on PostgreSQL, and imports nothing of the
program: what it needs is written down in it, so that it does the same in every later version.
"""

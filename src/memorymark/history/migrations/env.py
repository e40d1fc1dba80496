"""Alembic runs this file to apply migrations on the connection that ``migrate`` was given."""

from alembic import context

from memorymark.history.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()

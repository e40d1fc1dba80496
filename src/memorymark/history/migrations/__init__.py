"""Every change of the tables since the first, one file each in ``versions``; Alembic applies what is missing."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from memorymark.errors import HistoryError


def migrate(connection: Connection) -> None:
    """Brings the tables up to date, in the transaction of the connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    here = MigrationContext.configure(connection).get_current_revision()
    known = ScriptDirectory.from_config(config)
    if here is not None and here not in {script.revision for script in known.walk_revisions()}:
        raise HistoryError("the history was written by a newer MemoryMark; update this one, or use another history.")
    if here != known.get_current_head():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

"""Every change of the tables since the first, one file each in ``versions``; Alembic applies what is missing."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from memorymark.errors import HistoryError


def is_current(connection: Connection) -> bool:
    """Whether the tables are up to date."""
    here = MigrationContext.configure(connection).get_current_revision()
    known = ScriptDirectory.from_config(_config())
    if here is not None and here not in {script.revision for script in known.walk_revisions()}:
        raise HistoryError("the history was written by a newer MemoryMark; update this one, or use another history.")
    return here == known.get_current_head()


def migrate(connection: Connection) -> None:
    """Brings the tables up to date, in the transaction of the connection."""
    if not is_current(connection):
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config

"""Every change of the tables since the first, one file each in ``versions``; Alembic applies what is missing."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def migrate(connection: Connection) -> None:
    """Brings the tables up to date, in the transaction of the connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    here = MigrationContext.configure(connection).get_current_revision()
    if here != ScriptDirectory.from_config(config).get_current_head():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

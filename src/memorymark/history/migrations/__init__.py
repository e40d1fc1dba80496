"""Every change of the tables since the first, one file each in ``versions``; Alembic applies what is missing."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect

from memorymark.errors import HistoryError

HERE = Path(__file__).parent


def is_current(connection: Connection) -> bool:
    """Whether the tables are up to date; told without Alembic, which takes half a second to import."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    here = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    known = sorted(file.name.partition("_")[0] for file in (HERE / "versions").glob("[0-9]*.py"))
    if here is not None and here not in known:
        raise HistoryError("the history was written by a newer MemoryMark; update this one, or use another history.")
    return bool(here == known[-1])


def migrate(connection: Connection) -> None:
    """Brings the tables up to date, in the transaction of the connection."""
    if not is_current(connection):
        upgrade(connection, "head")


def upgrade(connection: Connection, revision: str) -> None:
    """Applies the changes up to a revision."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(HERE))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)

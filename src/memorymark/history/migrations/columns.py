"""Adds columns to a table, which SQLAlchemy has no statement for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.schema import CreateColumn


def add_columns(connection: Connection, table_name: str, *columns: Column[Any]) -> None:
    """Adds the columns in this order; a column that is not nullable needs a ``server_default``."""
    table = Table(table_name, MetaData(), *columns)
    name = connection.dialect.identifier_preparer.format_table(table)
    for column in columns:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {described}")

"""What a server that is started again must know of a job that waits."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds whether an earlier answer will do, and how long the job may take."""
    op.add_column("jobs", sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("jobs", sa.Column("time_limit_seconds", sa.Float))

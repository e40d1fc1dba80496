"""What was found to fit where a training does not."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the suggestions of a job that ended with a training that does not fit."""
    op.add_column("jobs", sa.Column("suggestions", sa.JSON))

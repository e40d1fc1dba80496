"""The commands of a page of the documentation, run as they stand there, on paths and servers of a test."""

import re
import subprocess
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent
# What only root may do, or what would change this machine.
STAND_INS = """
set -euo pipefail
apt-get() { :; }
systemctl() { echo "systemctl $*"; }
runuser() { shift 3; "$@"; }
"""


def commands(page, heading):
    """The blocks of commands between a heading and the next one."""
    [section] = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", (DOCS / page).read_text(), re.DOTALL | re.M)
    return re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def run_commands(block, folders, environment=None):
    """What the commands print; absolute paths that begin with one of these folders are moved below another."""
    for folder, instead in folders.items():
        block = block.replace(folder, str(instead))
    done = subprocess.run(
        ["bash", "-c", STAND_INS + block], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout

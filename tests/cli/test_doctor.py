"""``memorymark doctor``."""

import torch

from support.command_line import document, run_here


def test_doctor_finds_torch():
    result = run_here("doctor", "--json")

    checks = {check["name"]: check for check in document(result)["checks"]}
    assert result.returncode == 0
    assert (checks["torch"]["status"], checks["torch"]["found"].split()[0]) == ("ok", torch.__version__)
    assert all(check["advice"] for check in checks.values() if check["status"] != "ok")

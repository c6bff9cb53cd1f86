"""The wheel in clean environments, by each installer that users have: it runs, and knows how it was installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .installers import Installed, by_pip, by_pipx, by_uv_pip, by_uv_tool, must, run


@pytest.mark.parametrize("install", [by_pip, by_uv_pip, by_uv_tool, by_pipx])
def test_an_installed_wheel_works_and_knows_how_to_add_an_extra(
    install: Callable[[Path, str, dict[str, str]], Installed],
    wheels: Path,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    wheel = str(next(wheels.glob("tiebreak-*.whl")))
    found = {"PIP_FIND_LINKS": str(wheels), "UV_FIND_LINKS": str(wheels)}
    installed = install(tmp_path, wheel, environment | found)
    user = environment | {"PATH": f"{installed.tb.parent}:/usr/bin:/bin"}

    assert must(["tb", "--version"], user, tmp_path).startswith("tiebreak 0.")
    assert "the login" in must(["tb", "post", "the login"], user, tmp_path)
    assert "epoch 1" in must(["tb", "claim", "#1"], user, tmp_path)
    refused = run(["tb", "serve"], user, tmp_path)
    assert refused.returncode == 3, refused
    assert "is not installed" in refused.stderr
    assert installed.begin in refused.stderr
    assert "Traceback" not in refused.stderr

    found_by = {"MANPATH": installed.manpath} if installed.manpath else {}
    page = must(["man", "--where", "tb-claim"], user | found_by, tmp_path).strip()
    assert Path(page).read_text() == must(["tb", "help", "--man", "claim"], user, tmp_path)

    schedule = ["tb", "cron", "add", "night", "@daily", "--", "true"]
    command = run(schedule, user, tmp_path).stderr.partition("install the extra 'cron': ")[2].strip()
    must(["sh", "-c", command], environment | found, tmp_path)
    assert "night" in must(schedule, user, tmp_path)

"""`tb init` never pretends: what it writes is run as a client runs it, and what would not work is refused or named."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tiebreak.guard.commits.git_hooks import NAMES
from tiebreak.guard.setup.init import CLIENTS

from ..cli.command import TB, Tb, changed_command
from .actors import git, put
from .test_init import ALL, everything

BARE = "/usr/bin:/bin"
"""A PATH without `tb`."""


def profile(tb: Tb, content: str) -> None:
    """Make this the start-up file of the user's login shell."""
    put(Path(tb.environment["HOME"]) / ".profile", content)


def without_mcp(folder: Path) -> Path:
    """A folder with a `tb` whose installation has no MCP SDK."""
    made = folder / "lean"
    made.mkdir()
    os.rename(changed_command(made, "sys.modules['mcp'] = None"), made / "tb")
    return made


def test_nothing_is_written_if_no_client_would_find_tb(tb: Tb, repo: Path) -> None:
    profile(tb, "")
    before = everything(repo)
    for words in (["--yes"], ["--dry-run"], ["--yes", "--json"]):
        refused = tb("init", *words, *ALL, env={"PATH": BARE})
        assert refused.code == 1, refused
        assert "not on the PATH: nothing was written" in refused.out + refused.err
    assert "uv tool install" in refused.out
    assert everything(repo) == before
    assert not (repo / ".git/tiebreak-init.json").exists()


def test_force_writes_what_cannot_run_here(tb: Tb, repo: Path) -> None:
    profile(tb, "")
    assert tb("init", "--yes", "--force", *ALL, env={"PATH": BARE}).code == 0
    assert "tb hook claude PreToolUse" in (repo / ".claude/settings.json").read_text()
    assert "tiebreak" in (repo / ".mcp.json").read_text()


def test_a_login_shell_that_finds_tb_is_enough(tb: Tb, repo: Path) -> None:
    """The shell of this moment does not find it, and a client in a new one does."""
    assert tb("init", "--yes", "--no-mcp", *ALL, env={"PATH": BARE}).code == 0


def test_each_written_command_is_run_and_told(tb: Tb, repo: Path) -> None:
    done = tb("init", "--yes", *ALL)
    assert done.code == 0, done
    for client in CLIENTS:
        assert f"ok: {client.NAME} MCP: " in done.out
        assert (f"ok: {client.NAME} hooks: " in done.out) is hasattr(client, "EVENTS")
    assert f"ok: git hooks: {', '.join(NAMES)}: installed, and they find tb" in done.out
    assert "nobody is here" in tb.ok("agents")


def test_an_editor_that_takes_its_path_from_a_login_shell_is_named(tb: Tb, repo: Path) -> None:
    profile(tb, "echo 'a greeting from the profile'\n")
    done = tb("init", "--yes", "--client", "cursor", "--client", "claude")
    assert done.code == 1
    assert (
        "not ok: cursor hooks: .cursor/hooks.json: `tb hook cursor preToolUse` cannot run: tb is not found" in done.out
    )
    assert "in a new login shell" in done.out
    assert "ok: claude hooks: .claude/settings.json: `tb hook claude PreToolUse` answers, but a new login" in done.out


def test_without_the_mcp_extra_the_rest_is_set_up_and_the_lack_is_told(tb: Tb, repo: Path, tmp_path: Path) -> None:
    lean = without_mcp(tmp_path)
    profile(tb, f"PATH={lean}:$PATH\n")
    done = tb.sh(f"PATH={lean}:$PATH; tb init --yes --client claude --client gemini --client vscode")
    assert done.code == 1, done
    assert "not set up: MCP: the extra 'mcp' is not installed" in done.out
    assert "pip install" in done.out
    assert not (repo / ".mcp.json").exists()
    assert not (repo / ".vscode/mcp.json").exists()
    assert "mcpServers" not in json.loads((repo / ".gemini/settings.json").read_text())
    assert "ok: claude hooks" in done.out
    again = tb.sh(f"PATH={lean}:$PATH; tb init --yes --no-mcp --client claude")
    assert again.code == 0, again


def test_a_server_that_cannot_start_is_named_with_its_reason(tb: Tb, repo: Path, tmp_path: Path) -> None:
    """The `tb` that clients find is another installation than the one that sets up."""
    profile(tb, f"PATH={without_mcp(tmp_path)}:$PATH\n")
    done = tb("init", "--yes", "--client", "claude")
    assert done.code == 1
    assert "not ok: claude MCP: .mcp.json: `tb mcp` gives no greeting" in done.out
    assert "the MCP SDK is not installed" in done.out
    assert "ok: claude hooks" in done.out


def test_another_program_of_that_name_is_not_taken_for_tiebreak(tb: Tb, repo: Path, tmp_path: Path) -> None:
    put(tmp_path / "other/tb", "#!/bin/sh\nexit 0\n")
    (tmp_path / "other/tb").chmod(0o755)
    profile(tb, f"PATH={tmp_path}/other:$PATH\n")
    done = tb("init", "--yes", "--client", "codex")
    assert done.code == 1
    assert f"not ok: codex hooks: .codex/hooks.json: `tb hook codex PreToolUse` runs {tmp_path}/other/tb" in done.out


def test_a_server_with_a_command_and_variables_of_the_teams_own_is_run_as_it_is(tb: Tb, repo: Path) -> None:
    server = {"command": "env", "args": ["tb", "--project", "ours", "mcp"], "env": {"TIEBREAK_AGENT": "ann~1"}}
    put(repo / ".mcp.json", json.dumps({"mcpServers": {"tiebreak": server}}))
    hook = {"type": "command", "command": "TIEBREAK_PROJECT=ours tb hook claude PreToolUse"}
    put(repo / ".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
    done = tb("doctor")
    assert done.code == 0, done
    assert "`env tb --project ours mcp` answers" in done.out
    assert "`TIEBREAK_PROJECT=ours tb hook claude PreToolUse` answers" in done.out


def test_what_a_shells_start_up_leaves_running_is_not_waited_for(tb: Tb, repo: Path, tmp_path: Path) -> None:
    """It has inherited the shell's output, and would keep a pipe open."""
    put(tmp_path / "runs", "")
    lasting = f"while [ -e {tmp_path}/runs ]; do sleep 0.1; done &"
    profile(tb, f"PATH={os.path.dirname(TB)}:$PATH\n{lasting}\n")
    try:
        done = tb("init", "--yes", "--no-mcp", "--client", "cursor", env={"PATH": BARE})
    finally:
        (tmp_path / "runs").unlink()
    assert done.code == 0, done


def test_the_doctor_runs_what_was_set_up(tb: Tb, repo: Path, tmp_path: Path) -> None:
    def findings(code: int = 0) -> dict[str, str]:
        answer = tb("doctor", "--json")
        assert answer.code == code, answer
        return {each["what"]: each["level"] for each in answer.json}

    assert not {"claude hooks", "claude MCP", "git hooks"} & set(findings())
    tb.ok("init", "--yes", "--force", "--client", "claude")
    found = findings()
    assert (found["claude hooks"], found["claude MCP"], found["git hooks"]) == ("ok", "ok", "ok")
    profile(tb, f"PATH={without_mcp(tmp_path)}:$PATH\n")
    (repo / ".git/hooks/pre-push").unlink()
    found = findings(3)
    assert (found["claude hooks"], found["claude MCP"], found["git hooks"]) == ("ok", "bad", "bad")


@pytest.mark.parametrize("broken", ["gone", "mode"])
def test_git_hooks_that_would_check_nothing_are_named(tb: Tb, repo: Path, broken: str) -> None:
    tb.ok("init", "--yes", "--no-mcp", "--client", "claude")
    hook = repo / ".git/hooks/pre-commit"
    if broken == "mode":
        hook.chmod(0o644)
    else:
        hook.write_text(hook.read_text().replace(shlex.quote(TB), "/nowhere/tb"))
    answer = tb("doctor", "--json")
    assert answer.code == 3
    assert [each["level"] for each in answer.json if each["what"] == "git hooks"] == ["bad"]


@pytest.mark.parametrize("shell", ["/nowhere/shell", "/bin/false", f"{sys.executable}"])
def test_a_login_shell_that_tells_nothing_is_no_reason_to_refuse(tb: Tb, repo: Path, shell: str) -> None:
    assert tb("init", "--yes", "--no-mcp", "--client", "cursor", env={"SHELL": shell}).code == 0


def test_a_git_without_the_path_of_a_shell_is_guarded(tb: Tb, repo: Path) -> None:
    tb.ok("init", "--yes", "--no-mcp", "--client", "claude")
    ben = tb("--as", "ben~1", "hold", "a.py")
    assert ben.code == 0
    (repo / "a.py").write_text("ann's\n")
    git("add", "a.py", cwd=repo)
    with pytest.raises(AssertionError, match=r"files that others hold: a\.py by ben"):
        git("commit", "-m", "all", cwd=repo, env=tb.changed({"PATH": BARE, "TIEBREAK_AGENT": "ann"}))

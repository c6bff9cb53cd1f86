"""`tb init`: every client is set up, what was there stays as it was, and undoing gives back every byte."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tiebreak.guard.setup.agent_guide import SECTION, SKILL
from tiebreak.guard.setup.config_merge import merge_json, merge_section, merge_toml, read
from tiebreak.guard.setup.init import CLIENTS

from ..cli.command import Tb
from .actors import git, put

ALL = [word for client in CLIENTS for word in ("--client", client.NAME)]
INIT = ("init", "--yes", "--force")
"""Without the check at the end, which runs every command: `test_init_works` is about that."""
HOOKS = {".claude/settings.json": "claude", ".codex/hooks.json": "codex", ".gemini/settings.json": "gemini"}

EXISTING = {
    ".mcp.json": '{"mcpServers": {"files": {"command": "npx", "args": ["files"]}}}\n',
    ".claude/settings.json": (
        '{\n    "permissions": {"allow": ["Bash(ls:*)"]},\n    "hooks": {\n        "PreToolUse": [\n'
        '            {\n                "matcher": "Bash",\n'
        '                "hooks": [{"type": "command", "command": "./check.sh"}]\n'
        "            }\n        ]\n    }\n}"
    ),
    ".codex/config.toml": 'model = "gpt-5.5"\n\n# our servers\n[mcp_servers.docs]\ncommand = "docs"\n',
    ".cursor/hooks.json": '{\r\n\t"version": 1,\r\n\t"hooks": {}\r\n}\r\n',
    ".gemini/settings.json": "{}",
    ".vscode/mcp.json": (
        '\ufeff{\n  // servers for the team\n  "servers": {\n'
        '    "web": { "url": "https://example.org/mcp" }, // ours\n  },\n'
        '  "inputs": [/* none */],\n}\n'
    ),
    "AGENTS.md": "# Rules\n\nBe kind.",
    "gptme.toml": 'prompt = "x"\n\n[mcp]\nenabled = true\n',
}


def everything(repo: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of the checkout and every hook, with its mode."""
    found = [path for path in repo.rglob("*") if path.is_file() and ".git" not in path.relative_to(repo).parts]
    found += [path for path in (repo / ".git" / "hooks").glob("*") if path.is_file()]
    return {str(path.relative_to(repo)): (path.read_bytes(), path.stat().st_mode) for path in found}


def folders(repo: Path) -> set[str]:
    return {str(p.relative_to(repo)) for p in repo.rglob("*") if p.is_dir() and ".git" not in p.relative_to(repo).parts}


@pytest.fixture
def lived_in(repo: Path) -> Path:
    """A repository that has configuration of all kinds already."""
    for name, content in EXISTING.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    (repo / ".claude/settings.json").chmod(0o600)
    hook = repo / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o700)
    return repo


@pytest.mark.parametrize("kind", ["repo", "lived_in"])
def test_init_twice_and_undo_restores_every_byte(kind: str, tb: Tb, request: pytest.FixtureRequest) -> None:
    place: Path = request.getfixturevalue(kind)
    before, dirs = everything(place), folders(place)
    tb.ok(*INIT, *ALL)
    once = everything(place)
    assert once != before
    assert "all files are as they should be" in tb.ok(*INIT, *ALL)
    assert everything(place) == once
    tb.ok("init", "--undo")
    assert everything(place) == before
    assert folders(place) == dirs
    assert not (place / ".git" / "tiebreak-init.json").exists()


def test_a_dry_run_shows_all_and_changes_nothing(lived_in: Path, tb: Tb) -> None:
    before = everything(lived_in)
    shown = tb.ok("init", "--dry-run", *ALL)
    assert everything(lived_in) == before
    assert "+++ b/.claude/settings.json" in shown
    assert '"command": "tb hook claude PreToolUse"' in shown
    assert "+++ b/AGENTS.md" in shown


def test_init_changes_nothing_without_consent(lived_in: Path, tb: Tb) -> None:
    before = everything(lived_in)
    answer = tb("init", *ALL)
    assert answer.code == 2
    assert "--yes" in answer.err
    assert everything(lived_in) == before


def test_what_was_there_is_still_there_with_its_comments(lived_in: Path, tb: Tb) -> None:
    tb.ok(*INIT, *ALL)
    settings = json.loads((lived_in / ".claude/settings.json").read_text())
    assert settings["permissions"] == {"allow": ["Bash(ls:*)"]}
    first, second = settings["hooks"]["PreToolUse"]
    assert first["hooks"][0]["command"] == "./check.sh"
    assert second["hooks"][0]["command"] == "tb hook claude PreToolUse"
    servers = json.loads((lived_in / ".mcp.json").read_text())["mcpServers"]
    assert servers == {"files": {"command": "npx", "args": ["files"]}, "tiebreak": {"command": "tb", "args": ["mcp"]}}
    code = (lived_in / ".vscode/mcp.json").read_bytes().decode()
    assert code.startswith("\ufeff{\n  // servers for the team\n")
    assert '}, // ours\n    "tiebreak": {' in code
    assert "/* none */" in code
    toml = tomllib.loads((lived_in / ".codex/config.toml").read_text())
    assert toml["mcp_servers"] == {"docs": {"command": "docs"}, "tiebreak": {"command": "tb", "args": ["mcp"]}}
    assert "# our servers\n" in (lived_in / ".codex/config.toml").read_text()
    assert tomllib.loads((lived_in / "gptme.toml").read_text())["mcp"]["servers"][0]["name"] == "tiebreak"
    assert (lived_in / "AGENTS.md").read_text().startswith("# Rules\n\nBe kind.\n\n<!-- tiebreak:begin -->")
    cursor = (lived_in / ".cursor/hooks.json").read_bytes()
    assert cursor.count(b"\n") == cursor.count(b"\r\n")
    assert json.loads(cursor)["version"] == 1


def test_every_hook_in_the_files_is_a_command_that_the_guard_knows(repo: Path, tb: Tb) -> None:
    tb.ok(*INIT, *ALL)
    from tiebreak.guard.client_hooks import client_module

    for name, client in {**HOOKS, ".cursor/hooks.json": "cursor"}.items():
        commands = re.findall(r'"tb hook (\w+) (\w+)"', (repo / name).read_text())
        assert commands, name
        assert {found for found, _ in commands} == {client}
        assert {event for _, event in commands} == set(client_module(client).EVENTS)


def test_a_hook_from_the_settings_works_as_it_stands(repo: Path, tb: Tb) -> None:
    tb.ok(*INIT, "--client", "claude")
    settings = json.loads((repo / ".claude/settings.json").read_text())
    command = settings["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    given = json.dumps({"session_id": "s", "cwd": str(repo), "hook_event_name": "SessionStart"})
    done = tb.sh(f"printf %s '{given}' | {command}")
    assert re.search(r"you are [a-z]+-[a-z]+ ", done.json["hookSpecificOutput"]["additionalContext"])


def test_only_the_clients_that_are_here_are_set_up(repo: Path, tb: Tb, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    put(bin_folder / "codex", "#!/bin/sh\n")
    (bin_folder / "codex").chmod(0o755)
    (repo / ".gemini").mkdir()
    (tmp_path / "home" / ".cursor").mkdir()
    path = f"{tb.environment['PATH'].partition(':')[0]}:{bin_folder}:/usr/bin:/bin"
    answer = tb("init", "--dry-run", "--json", env={"PATH": path})
    assert answer.json["clients"] == ["codex", "cursor", "gemini"]


def test_a_file_that_cannot_be_understood_is_left_alone_and_named(repo: Path, tb: Tb) -> None:
    put(repo / ".mcp.json", '{"mcpServers": {,}}')
    put(repo / ".claude/settings.json", '{"hooks": []}')
    put(repo / ".codex/config.toml", "mcp_servers = {}\n")
    answer = tb(*INIT, *ALL)
    assert answer.code == 1
    assert "not changed: .mcp.json: line 1" in answer.out
    assert "not changed: .claude/settings.json: line 1: an object was expected" in answer.out
    assert "not changed: .codex/config.toml: there is no place" in answer.out
    assert (repo / ".mcp.json").read_text() == '{"mcpServers": {,}}'
    assert "tiebreak" in (repo / ".cursor/mcp.json").read_text()


def test_what_was_changed_since_is_not_undone(repo: Path, tb: Tb) -> None:
    tb.ok(*INIT, "--client", "claude")
    with (repo / "AGENTS.md").open("a") as file:
        file.write("\nMy own words.\n")
    answer = tb("init", "--undo")
    assert answer.code == 1
    assert "AGENTS.md: was changed since" in answer.out
    assert "My own words." in (repo / "AGENTS.md").read_text()
    assert not (repo / ".mcp.json").exists()


def test_a_link_to_another_file_of_the_repository_stays_a_link(repo: Path, tb: Tb) -> None:
    put(repo / "CLAUDE.md", "# Rules\n")
    (repo / "AGENTS.md").symlink_to("CLAUDE.md")
    tb.ok(*INIT, "--client", "claude")
    assert (repo / "AGENTS.md").is_symlink()
    assert "tiebreak:begin" in (repo / "CLAUDE.md").read_text()
    tb.ok("init", "--undo")
    assert (repo / "CLAUDE.md").read_text() == "# Rules\n"


def test_links_to_nothing_yet_and_two_links_to_one_file_are_undone_too(repo: Path, tb: Tb) -> None:
    (repo / "AGENTS.md").symlink_to("docs/rules/agents.md")
    put(repo / ".claude/settings.json", "{}")
    (repo / ".gemini").mkdir()
    (repo / ".gemini/settings.json").symlink_to("../.claude/settings.json")
    tb.ok(*INIT, "--client", "claude", "--client", "gemini")
    assert "tiebreak:begin" in (repo / "docs/rules/agents.md").read_text()
    both = (repo / ".claude/settings.json").read_text()
    assert "tb hook claude PreToolUse" in both
    assert "tb hook gemini BeforeTool" in both
    assert "all files are as they should be" in tb.ok(*INIT, "--client", "claude", "--client", "gemini")
    tb.ok("init", "--undo")
    assert (repo / "AGENTS.md").is_symlink()
    assert not (repo / "docs/rules").exists()
    assert (repo / ".claude/settings.json").read_text() == "{}"
    assert (repo / ".gemini/settings.json").is_symlink()


def test_a_file_where_a_folder_has_to_be_is_named_and_the_rest_is_done(repo: Path, tb: Tb) -> None:
    put(repo / ".claude", "a file\n")
    answer = tb(*INIT, "--client", "claude")
    assert answer.code == 1
    assert ".claude/settings.json: nothing can be written in .claude" in answer.out
    assert (repo / ".mcp.json").exists()
    assert tb("init", "--undo").code == 0
    assert (repo / ".claude").read_text() == "a file\n"
    assert not (repo / ".mcp.json").exists()


def test_undoing_in_one_worktree_leaves_the_others(repo: Path, tb: Tb, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    for folder in (repo, tmp_path / "tree"):
        assert tb(*INIT, "--client", "claude", cwd=folder).code == 0
    assert tb("init", "--undo", cwd=repo).code == 0
    assert not (repo / ".mcp.json").exists()
    assert (tmp_path / "tree/.mcp.json").exists()
    assert tb("init", "--undo", cwd=tmp_path / "tree").code == 0
    assert not (tmp_path / "tree/.mcp.json").exists()


def test_a_link_out_of_the_repository_is_not_followed(repo: Path, tb: Tb, tmp_path: Path) -> None:
    put(tmp_path / "outside.md", "not yours\n")
    (repo / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    assert tb(*INIT, "--client", "claude").code == 1
    assert (tmp_path / "outside.md").read_text() == "not yours\n"


def test_in_a_worktree_the_checkout_there_is_set_up(repo: Path, tb: Tb, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    assert tb(*INIT, "--client", "claude", cwd=tmp_path / "tree").code == 0
    assert (tmp_path / "tree" / ".mcp.json").exists()
    assert not (repo / ".mcp.json").exists()
    assert tb("init", "--undo", cwd=tmp_path / "tree").code == 0
    assert git("status", "--porcelain", cwd=tmp_path / "tree") == ""


def test_what_gets_committed_has_no_secrets_and_no_paths_of_this_machine(repo: Path, tb: Tb) -> None:
    tb.ok(*INIT, *ALL)
    for name, (content, _) in everything(repo).items():
        if not name.startswith(".git"):
            assert str(repo).encode() not in content, name
            assert not re.search(rb"(?i)token|bearer|secret|127\.0\.0\.1", content), name


def test_the_guides_keep_to_their_size() -> None:
    assert len(SECTION.strip().splitlines()) <= 38  # and two marks
    head = SKILL.split("---")[1]
    assert re.search(r"^name: tiebreak$", head, re.M)
    described = head.partition("description: ")[2]
    assert 20 < len(described) <= 1024


# ── Merging ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "wanted", "merged"),
    [
        ("", {"a": 1}, '{\n  "a": 1\n}\n'),
        ("{}", {"a": 1}, '{\n  "a": 1\n}'),
        ('{"b": 2}', {"a": 1}, '{"b": 2, "a": 1}'),
        ('{\n\t"b": 2\n}\n', {"a": 1}, '{\n\t"b": 2,\n\t"a": 1\n}\n'),
        ('{\n  "b": 2, // last\n}', {"a": 1}, '{\n  "b": 2, // last\n  "a": 1,\n}'),
        ('{\n  "b": 2 // last\n}', {"a": 1}, '{\n  "b": 2, // last\n  "a": 1\n}'),
        ('{"a": 5}', {"a": 1}, '{"a": 5}'),
        ("{ // nothing\n}", {"a": 1}, '{\n  "a": 1\n // nothing\n}'),
        ('{"a": {"b": {}}}', {"a": {"b": {"c": []}}}, '{"a": {"b": {\n  "c": []\n}}}'),
    ],
)
def test_only_what_is_missing_is_added(text: str, wanted: dict[str, Any], merged: str) -> None:
    found = merge_json(text, wanted)
    assert found == merged
    assert merge_json(found, wanted) == found
    read(found)


@pytest.mark.parametrize("text", ['{"a" 1}', '{"a": 1', "[1,", "{1: 2}", '{"a": 1} x', "/* ", "nul", "[" * 5000])
def test_what_is_not_json_is_named_with_its_line(text: str) -> None:
    from tiebreak import Invalid

    with pytest.raises(Invalid, match="line 1: "):
        merge_json(text, {"a": 1})


def test_a_section_is_replaced_where_it_is() -> None:
    first = merge_section("top\n", "one")
    assert merge_section(first + "bottom\n", "two") == first.replace("one", "two") + "bottom\n"


def test_a_toml_file_without_an_end_of_line_gets_one() -> None:
    assert merge_toml("a = 1", ["[b]\nc = 2\n"]) == "a = 1\n\n[b]\nc = 2\n"


# ── What is left to do ───────────────────────────────────────────────────────────────────────────────


def test_a_second_worktree_is_not_left_without_hooks_unsaid(tb: Tb, repo: Path) -> None:
    """Git gives a worktree what is committed, and a client there finds no hooks before that."""
    told = "Commit the files above: agents in other worktrees and clones are guarded only if they are there, too."
    assert told in tb.ok(*INIT, "--client", "claude").splitlines()
    assert told not in tb.ok(*INIT, "--client", "claude")
    tb.ok("init", "--undo")
    assert tb.json(*INIT, "--client", "claude")["next"] == [told]


def test_files_that_git_ignores_are_named(tb: Tb, repo: Path) -> None:
    put(repo / ".gitignore", ".claude/\n")
    said = tb.ok(*INIT, "--client", "claude")
    assert "git ignores .claude/settings.json, .claude/skills/tiebreak/SKILL.md: run `tb init` in every other" in said
    assert "Commit the files above" in said
    tb.ok("init", "--undo")
    put(repo / ".gitignore", "*\n")
    assert "Commit the files above" not in tb.ok(*INIT, "--client", "claude")


def test_somebody_without_a_known_client_learns_which_there_are(tb: Tb, repo: Path) -> None:
    said = tb.ok("init", "--dry-run", "--force", env={"PATH": "/usr/bin:/bin"})
    assert "no agent client was found: claude, codex, cursor, gemini, vscode or gptme (`--client NAME` sets" in said

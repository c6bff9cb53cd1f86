"""`git config tiebreak.holds checkout`: agents in two worktrees edit the same file, those in one exclude each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Lost

from ..cli.command import Tb
from .actors import Claude, Denied, git

Start = Callable[..., Claude]


@pytest.fixture
def tree(repo: Path) -> Path:
    """A second worktree of a repository in which holds are a checkout's own."""
    git("config", "tiebreak.holds", "checkout", cwd=repo)
    git("worktree", "add", "-q", "-b", "feature", "../feature", cwd=repo)
    return repo.parent / "feature"


def held(agent: Claude) -> set[str]:
    """What is held, by path and holder."""
    return {f"{hold.resource.rpartition('/')[2]} {hold.holder}" for hold in agent.board.holds.list()}


def add(agent: Claude, name: str = "a.py") -> None:
    """Read a file and add a line to it."""
    agent.read(name)
    agent.edit(name, "", f"by {agent.session}\n")


def test_two_worktrees_edit_and_commit_the_same_file(claude: Start, repo: Path, tree: Path) -> None:
    ann, ben = claude("ann"), claude("ben", cwd=tree)
    add(ann)
    add(ben)
    assert held(ann) == {f"a.py {ann.name}", f"a.py {ben.name}"}
    for agent in (ann, ben):
        assert agent.commit("a.py")["paths"] == ["a.py"]


def test_agents_in_one_worktree_exclude_each_other(claude: Start, tree: Path) -> None:
    ann, ben = claude("ann", cwd=tree), claude("ben", cwd=tree)
    add(ann)
    with pytest.raises(Denied) as denied:
        add(ben)
    assert f"a.py is held by {ann.name}" in denied.value.reason
    assert "tb hold a.py --wait" in denied.value.reason
    with pytest.raises(Lost, match="others hold"):
        ben.commit("a.py")


def test_an_agent_without_the_setting_is_kept_out_and_keeps_out(claude: Start, repo: Path, tree: Path) -> None:
    git("config", "extensions.worktreeConfig", "true", cwd=repo)
    git("config", "--worktree", "tiebreak.holds", "repository", cwd=tree)
    ann, ben = claude("ann"), claude("ben", cwd=tree)
    add(ann)
    with pytest.raises(Denied, match="is held by"):
        add(ben)
    add(ben, "src/b.py")
    with pytest.raises(Denied, match=r"src/b\.py in every checkout"):
        add(ann, "src/b.py")
    (repo / "src/b.py").write_text("by hand\n")
    with pytest.raises(Lost, match="others hold"):
        ann.commit("src/b.py")


def test_a_change_of_the_setting_counts_at_the_next_edit(claude: Start, repo: Path, tree: Path) -> None:
    git("config", "tiebreak.holds", "repository", cwd=repo)
    ann, ben = claude("ann"), claude("ben", cwd=tree)
    add(ann, "src/b.py")
    with pytest.raises(Denied):
        add(ben, "src/b.py")
    git("config", "tiebreak.holds", "checkout", cwd=repo)
    add(ann)
    add(ben)
    with pytest.raises(Denied, match="in every checkout"):  # as long as the hold from before lasts
        add(ben, "src/b.py")


def test_a_file_that_changed_is_not_dropped_at_the_end_of_a_turn_after_the_setting_changed(
    claude: Start, repo: Path, tree: Path
) -> None:
    git("config", "--unset", "tiebreak.holds", cwd=repo)
    ann = claude("ann")
    add(ann)
    git("config", "tiebreak.holds", "checkout", cwd=repo)
    ann.stop()
    assert held(ann) == {f"file:a.py {ann.name}"}


def test_a_shell_command_in_one_worktree_accuses_nobody_in_another(claude: Start, repo: Path, tree: Path) -> None:
    ann, ben = claude("ann"), claude("ben", cwd=tree)
    add(ann)
    assert "you hold them now" in ben.bash("echo more >> a.py")
    assert held(ann) == {f"a.py {ann.name}", f"a.py {ben.name}"}
    assert ben.commit("a.py")["paths"] == ["a.py"]


def test_a_shell_command_on_a_file_of_the_same_worktree_is_told(claude: Start, tree: Path) -> None:
    ann, ben = claude("ann", cwd=tree), claude("ben", cwd=tree)
    add(ann)
    assert f"a.py (held by {ann.name})" in ben.bash("echo more >> a.py")
    with pytest.raises(Lost, match="others hold"):
        ben.commit("a.py")


def test_an_unusable_setting_is_named_by_the_hook_and_by_init(claude: Start, repo: Path, tb: Tb) -> None:
    git("config", "tiebreak.holds", "worktree", cwd=repo)
    answer = tb(
        "hook",
        "claude",
        "PreToolUse",
        stdin=json.dumps(
            claude("ann").fields("PreToolUse", tool_name="Write", tool_input={"file_path": str(repo / "a.py")})
        ),
    )
    assert "git config tiebreak.holds is 'worktree'" in answer.out + answer.err
    (repo / "a.py").write_text("by hand\n")
    for words in (("init", "--yes"), ("hold", "a.py"), ("commit", "a.py", "-m", "x"), ("project",)):
        answer = tb(*words)
        assert (answer.code, "git config tiebreak.holds is 'worktree'" in answer.err) == (2, True), answer
    assert not (repo / "AGENTS.md").exists()


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────


def run(tb: Tb, name: str, *words: str, cwd: Path, code: int = 0) -> str:
    answer = tb("--as", f"{name}~1", *words, cwd=cwd)
    assert answer.code == code, answer
    return answer.out + answer.err


def test_commands_in_two_worktrees_speak_of_their_own_file(tb: Tb, repo: Path, tree: Path) -> None:
    run(tb, "ann", "hold", "a.py", cwd=repo)
    run(tb, "ben", "hold", "../feature/a.py", cwd=tree)
    assert "a.py is held by ann" in run(tb, "cleo", "hold", "a.py", cwd=repo, code=1)
    listed = run(tb, "ann", "holds", cwd=repo)
    assert "file://repo-" in listed
    assert "file://feature-" in listed
    assert "ben" not in run(tb, "ann", "holds", "--matching", "a.py", cwd=repo)
    told = run(tb, "ann", "why", "a.py", cwd=repo)
    assert "ann took file://repo-" in told
    assert "ben" not in told
    for name, folder in (("ann", repo), ("ben", tree)):
        run(tb, name, "renew", "a.py", cwd=folder)
        run(tb, name, "drop", "a.py", cwd=folder)


def test_the_name_in_the_list_can_be_given_back_from_another_worktree(tb: Tb, repo: Path, tree: Path) -> None:
    run(tb, "ann", "hold", "a.py", cwd=repo)
    [hold] = json.loads(run(tb, "ben", "holds", "--json", cwd=tree))
    run(tb, "ben", "break", hold["resource"], "--reason", "ann is away", cwd=tree)
    assert run(tb, "ben", "holds", cwd=tree) == "nothing is held\n"


@pytest.mark.parametrize(("before", "after"), [("repository", "checkout"), ("checkout", "repository")])
def test_a_hold_from_before_the_setting_changed_can_be_dropped(
    tb: Tb, repo: Path, tree: Path, before: str, after: str
) -> None:
    git("config", "tiebreak.holds", before, cwd=repo)
    run(tb, "ann", "hold", "a.py", "docs/c.md", cwd=repo)
    git("config", "tiebreak.holds", "checkout", cwd=repo)
    run(tb, "ann", "project", cwd=repo)
    git("config", "tiebreak.holds", after, cwd=repo)
    run(tb, "ann", "drop", "a.py", cwd=repo)
    run(tb, "ben", "break", "docs/c.md", "--reason", "ann is away", cwd=repo)
    assert run(tb, "ann", "holds", cwd=repo) == "nothing is held\n"


def test_the_project_tells_whose_the_holds_are(tb: Tb, repo: Path, tree: Path) -> None:
    shown = run(tb, "ann", "project", cwd=tree)
    facts = json.loads(run(tb, "ann", "project", "--json", cwd=tree))
    assert f"file holds count in this checkout alone, {facts['checkout']} (git config tiebreak.holds in " in shown
    assert (facts["holds"], facts["holds_set_in"]) == ("checkout", str(repo / ".git" / "config"))
    git("config", "--unset", "tiebreak.holds", cwd=repo)
    assert "file holds count in every checkout of the repository" in run(tb, "ann", "project", cwd=tree)
    assert json.loads(run(tb, "ann", "project", "--json", cwd=tree))["checkout"] is None


# ── The Python handle, and what a shell completes ────────────────────────────────────────────────────


def test_a_python_handle_holds_the_file_of_its_checkout(
    claude: Start, repo: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben = claude("ann"), claude("ben", cwd=tree)
    monkeypatch.chdir(repo)
    with ann.board.hold("a.py") as mine:
        monkeypatch.chdir(tree)
        with ben.board.hold("a.py") as theirs:
            (repo / "a.py").write_text("by ann\n")
            with pytest.raises(Lost):
                ann.board.hold("a.py")
            assert ben.board.holds.list(matching=mine.holds[0].resource) == mine.holds
        assert [each.changed for each in theirs.released] == [False]
    assert [each.changed for each in mine.released] == [True]


def test_a_shell_completes_paths_here_and_full_names_elsewhere(tb: Tb, repo: Path, tree: Path) -> None:
    run(tb, "ann", "hold", "src/b.py", cwd=repo)
    run(tb, "ben", "hold", "a.py", cwd=tree)
    offered = run(tb, "ann", "completion", "fish", "--", "drop", "", cwd=repo / "src").splitlines()[1:]
    assert sorted(line.split("\t")[0].partition("-")[0] for line in offered) == ["b.py", "file://feature"]

"""Descriptions, edits, comments and trees on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command import TB, Environment, Tb
from .terminals import terminal

ALICE: Environment = {"TIEBREAK_AGENT": "alice~1"}
BOB: Environment = {"TIEBREAK_AGENT": "bob~1"}


def test_a_description_comes_from_an_option_a_file_or_standard_input(tb: Tb) -> None:
    (tb.folder / "plan.md").write_text("from a file\nof two lines\n")
    tb.ok("post", "one", "--body", "from an option")
    tb.ok("post", "two", "--body-file", "plan.md")
    tb.ok("post", "three", "--body", "-", stdin="from standard input\n")
    found = [tb.json("show", number)["body"] for number in ("1", "2", "3")]
    assert found == ["from an option", "from a file\nof two lines", "from standard input"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--body", "x", "--body-file", "y"], "--body or --body-file, not both"),
        (["--body-file", "missing.md"], "cannot read 'missing.md'"),
        (["--body", "-"], "body: must not be empty"),
    ],
)
def test_a_wrong_description_is_refused_and_nothing_is_posted(tb: Tb, words: list[str], message: str) -> None:
    answer = tb("post", "work", *words)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert tb.json("tasks") == []


def test_whoever_wins_a_task_sees_its_description(tb: Tb) -> None:
    tb.ok("post", "work", "--key", "work", "--body", "why:\n\nit leaks")
    assert tb.ok("claim", "work").splitlines()[1:] == ["  why:", "", "  it leaks"]
    tb.ok("release", "work")
    assert "it leaks" in tb.ok("next")


def test_show_tells_description_parts_and_comments(tb: Tb) -> None:
    tb.ok("post", "top", "--key", "top", "--body", "the plan", env=ALICE)
    tb.ok("post", "first part", "--key", "first", "--parent", "top", env=ALICE)
    tb.ok("post", "second part", "--parent", "top", env=ALICE)
    tb.ok("cancel", "first")
    assert tb.ok("comment", "top", "is", "this", "needed?", env=BOB) == "commented on #1, and told alice\n"
    shown = tb.ok("show", "top")
    assert "description\n  the plan\n" in shown
    assert "parts, 0 of 2 completed\n  #2  cancelled  first part\n  #3  pending    second part\n" in shown
    assert shown.endswith("comments\n  bob, 0s ago\n    is this needed?\n")
    assert "part of   #1 top" in tb.ok("show", "first")
    assert "about #1" in tb.ok("inbox", env=ALICE)


def test_edit_says_what_it_did(tb: Tb) -> None:
    tb.ok("post", "work", "--key", "work", "--tag", "a,b")
    assert tb.ok("edit", "work", "--priority", "high", "--tag", "c", "--no-tag", "a,b") == "edited #1 work\n"
    assert tb.json("show", "work")["tags"] == ["c"]
    assert tb.ok("edit", "work", "--priority", "high") == "nothing to change in #1 work\n"
    nothing = tb("edit", "work")
    assert (nothing.code, "nothing to change" in nothing.err) == (2, True)


def test_a_tree_is_drawn_with_branches(tb: Tb) -> None:
    for name, parent in (("top", ""), ("a", "top"), ("deep", "a"), ("b", "top"), ("alone", "")):
        tb.ok("post", name, "--key", name, *(["--parent", parent] if parent else []))
    lines = [line.split("-  ", 1)[1] for line in tb.ok("tasks", "--tree").splitlines()[1:]]
    assert lines == ["     top", "     ├─ a", "     │  └─ deep", "     └─ b", "     alone"]
    assert [task["name"] for task in tb.json("tasks", "--tree", "--under", "a")] == ["a", "deep"]
    for wrong in (["--under", "a"], ["--tree", "--mine"], ["--tree", "--state", "pending"]):
        assert tb("tasks", *wrong).code == 2


def test_next_in_critical_order_wins_what_others_wait_for(tb: Tb) -> None:
    tb.ok("post", "alone", "--priority", "urgent")
    tb.ok("post", "needed", "--key", "needed")
    tb.ok("post", "later", "--after", "needed")
    assert "needed" in tb.ok("next", "--order", "critical")
    wrong = tb("next", "--order", "soonest")
    assert (wrong.code, "--order: one of priority, critical" in wrong.err) == (2, True)


def editor(folder: Path, script: str) -> Environment:
    """An editor that does this to the file that it is given."""
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"EDITOR": str(path), "VISUAL": None}


def test_without_options_the_editor_opens_the_description(tb: Tb) -> None:
    tb.ok("post", "work", "--body", "old text")
    with terminal() as screen:
        running = screen.start(tb, TB, "edit", "1", env=editor(tb.folder, 'sed -i s/old/new/ "$1"'))
        assert screen.read(until=b"edited")
        running.wait()
    assert tb.json("show", "1")["body"] == "new text"


def test_a_text_that_was_overtaken_is_kept_and_the_other_one_stays(tb: Tb) -> None:
    tb.ok("post", "work", "--body", "old text")
    overtaken = f"'{TB}' edit 1 --body 'from somebody else' && echo mine > \"$1\""
    with terminal() as screen:
        running = screen.start(tb, TB, "edit", "1", env=editor(tb.folder, overtaken))
        assert screen.read(until=b"changed meanwhile")
        assert running.wait() == 1
    assert tb.json("show", "1")["body"] == "from somebody else"
    path = Path(screen.screen.decode().split("your text is in ")[1].splitlines()[0].strip())
    assert path.read_text() == "mine\n"
    path.unlink()


def test_an_editor_that_fails_leaves_the_text_where_it_says(tb: Tb) -> None:
    tb.ok("post", "work", "--body", "old text")
    with terminal() as screen:
        running = screen.start(tb, TB, "edit", "1", env=editor(tb.folder, 'echo half > "$1"; exit 3'))
        assert screen.read(until=b"ended with 3")
        assert running.wait() == 2
    path = Path(screen.screen.decode().split("your text is in ")[1].splitlines()[0].strip())
    assert path.read_text() == "half\n"
    path.unlink()
    assert tb.json("show", "1")["body"] == "old text"


def test_an_empty_description_is_refused_with_the_option_that_removes_it(tb: Tb) -> None:
    tb.ok("post", "work", "--body", "text")
    refused = tb("edit", "1", "--body", "")
    assert (refused.code, "--no-body removes it" in refused.err) == (2, True)
    tb.ok("edit", "1", "--no-body")
    assert tb.json("show", "1")["body"] is None

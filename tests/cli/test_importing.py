"""`tb import` reads the files that people have as they mean them, and `tb export` writes what it can read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.cli import importing

from .command import Answer, Tb
from .conftest import Rows

Cli = Callable[..., Answer]

PLAN = """\
# The plan

- [ ] write the parser
  It reads everything.

  ```
  - [ ] not an item
  ```
  - [x] tokens
  - [ ] tests
    1. [ ] unit tests
* [X] done

```md
- [ ] not an item either
```
<!--
- [ ] nor this
-->
    - [ ] nor code

## Front End!
+ [ ] page
  - a plain bullet
  - [-] old idea
"""


def tree(board: tiebreak.Board) -> dict[str, tuple[str | None, str]]:
    """Each task by its name: the name of its parent, and its state."""
    found = board.tasks.list(limit=1000)
    names = {task.number: task.name for task in found}
    return {task.name: (names.get(task.parent or 0), task.state) for task in found}


def lines(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_check_list_becomes_parents_and_children(cli: Cli, board: tiebreak.Board, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(PLAN)

    answer = cli("import", "plan.md")

    assert (answer.code, answer.out) == (0, "plan.md: posted 7 tasks, 0 known already\n")
    assert tree(board) == {
        "write the parser": (None, "pending"),
        "tokens": ("write the parser", "completed"),
        "tests": ("write the parser", "pending"),
        "unit tests": ("tests", "pending"),
        "done": (None, "completed"),
        "page": (None, "pending"),
        "old idea": ("page", "cancelled"),
    }
    tasks = {task.name: task for task in board.tasks.list()}
    assert tasks["write the parser"].body == "It reads everything.\n\n```\n- [ ] not an item\n```"
    assert tasks["page"].body == "- a plain bullet"
    assert (tasks["tests"].tags, tasks["page"].tags) == (("the-plan",), ("front-end",))


def test_an_edited_list_posts_only_the_new_lines(cli: Cli, board: tiebreak.Board, tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.write_text(PLAN)
    cli("import", "plan.md")

    plan.write_text(
        PLAN.replace("- [ ] write", "intro\n\n- [x] write").replace("  - [ ] tests", "  - [ ] docs\n  - [ ] tests")
    )
    answer = cli("import", "plan.md", "--json").json

    assert (answer["posted"], answer["known"]) == (1, 7)
    assert tree(board)["docs"] == ("write the parser", "pending")
    assert tree(board)["write the parser"] == (None, "pending"), "a known task is left as it is"


def test_the_same_text_twice_is_two_tasks(cli: Cli, board: tiebreak.Board) -> None:
    text = "- [ ] a\n  - [ ] tests\n  - [ ] tests\n- [ ] b\n  - [ ] tests\n"
    assert "posted 5 tasks" in cli("import", "-", stdin=text).out
    assert "posted 0 tasks, 5 known" in cli("import", "-", stdin=text).out
    assert len(board.tasks.list()) == 5


def test_one_list_can_be_imported_below_several_parents(cli: Cli, board: tiebreak.Board) -> None:
    for name in ("release-1", "release-2"):
        above = board.tasks.post(name=name, key=name)
        assert "posted 2 tasks" in cli("import", "-", "--parent", name, stdin="- [ ] a\n  - [ ] b\n").out
        assert [task.name for task in board.tasks.list(parent=above.number)] == ["a"]
    assert "posted 0 tasks" in cli("import", "-", "--parent", "#1", stdin="- [ ] a\n  - [ ] b\n").out


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("- [ ] a\n - [ ] b\n", {"a": None, "b": None}),
        ("- [ ] a\n\t- [ ] b\n", {"a": None, "b": "a"}),
        ("- [ ] a\n    - [ ] b\n  - [ ] c\n", {"a": None, "b": "a", "c": "a"}),
        ("- plain\n  - [ ] a\n", {"a": None}),
        ("- [ ] a\n\ntext\n\n  - [ ] b\n", {"a": None, "b": None}),
        ("- [a](x)\n- [ ]a\n- a [ ] b\n[ ] c\n- [y] d\n", {}),
        ("\ufeff- [ ] a\r\n  - [ ] b\r\n", {"a": None, "b": "a"}),
        ("- [ ] a\n  ```\n  open\n- [ ] b\n", {"a": None, "b": None}),
        ("~~~\n```\n- [ ] a\n~~~\n- [ ] b\n", {"b": None}),
        ("10) [/] a\n11) [~] b\n", {"a": None, "b": None}),
    ],
)
def test_what_counts_as_an_item_and_as_a_child(
    cli: Cli, board: tiebreak.Board, text: str, names: dict[str, str | None]
) -> None:
    assert cli("import", "-", "--format", "markdown", stdin=text).code == 0
    assert {name: parent for name, (parent, _) in tree(board).items()} == names


def test_an_item_without_text_is_named(cli: Cli, board: tiebreak.Board) -> None:
    answer = cli("import", "-", stdin="- [ ] a\n- [ ]\n- [ ] " + "x" * 801 + "\n")
    assert answer.code == 2
    assert "tb: standard input:2: an item without text" in answer.err
    assert "standard input:3: name: 801 bytes, the limit is 800" in answer.err
    assert board.tasks.list() == []


# ── JSON lines ───────────────────────────────────────────────────────────────────────────────────────


def test_bad_lines_are_named_and_nothing_is_posted(cli: Cli, rows: Callable[[], Rows], tmp_path: Path) -> None:
    cli("post", "before")
    before = rows()
    (tmp_path / "x.jsonl").write_text(
        lines({"name": "good"}) + "{oops\n\n[1]\n" + lines({"name": "x", "priority": 9}, {"name": "y", "colour": 1})
    )

    answer = cli("import", "x.jsonl")

    assert answer.code == 2
    assert "tb: x.jsonl:2: not valid JSON" in answer.err
    for told in ("x.jsonl:4: expected an object", "x.jsonl:5: priority: one of", "x.jsonl:6: unknown field 'colour'"):
        assert told in answer.err
    assert rows() == before


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (lines({"name": "a"}, {"name": "b", "after": ["nowhere"]}), 1, "x.jsonl:2: after: no task 'nowhere'"),
        (lines({"id": "a", "name": "a", "parent": "a"}), 1, "x.jsonl:1: is a part of itself: a → a"),
        (lines({"key": "a", "name": "a"}, {"key": "a", "name": "b"}), 2, "x.jsonl:2: a is in line 1 already"),
        (lines({"name": "a", "parent": {"id": "b"}}), 2, "x.jsonl:1: parent: expected text, got {'id': 'b'}"),
        (lines({"name": "a", "kind": "job"}), 2, "x.jsonl:1: kind: a job cannot be imported"),
        (lines({"title": "a", "id": "b-1", "priority": 7}), 2, "x.jsonl:1: priority: a number from 0 to 4"),
        (lines({"title": "\ud800" * 300, "id": "b"}), 2, "x.jsonl:1: name: contains a lone surrogate"),
        (lines({"title": "a"}), 2, "x.jsonl:1: id: a line with a `title` is an issue of beads"),
        (lines({"title": "a", "id": "b", "dependencies": ["c"]}), 2, "x.jsonl:1: dependencies: expected objects"),
    ],
)
def test_a_file_that_cannot_be_imported_leaves_no_trace(
    cli: Cli, board: tiebreak.Board, tmp_path: Path, text: str, code: int, told: str
) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    for words in ((), ("--dry-run",)):
        answer = cli("import", "x.jsonl", *words)
        assert (answer.code, told in answer.err) == (code, True), answer.err
    assert board.tasks.list() == []


@pytest.mark.parametrize(
    ("words", "content", "told"),
    [
        (("nowhere.md",), None, "import: nowhere.md cannot be read: No such file or directory"),
        (("x.md",), b"\xff\xfe- [ ] a", "import: x.md is not UTF-8 text"),
        (("x.md", "--format", "yaml"), b"", "import: --format: one of jsonl, markdown, got 'yaml'"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / words[0]).write_bytes(content)
    answer = cli("import", *words)
    assert (answer.code, told in answer.err) == (2, True), answer.err


def test_entries_without_a_name_of_their_own_are_not_doubled(cli: Cli, board: tiebreak.Board) -> None:
    text = lines({"name": "a"}, {"name": "a"}, {"name": "b", "id": "7"}, {"name": "c", "parent": 7})
    assert "posted 4 tasks" in cli("import", "-", stdin=text).out
    assert "posted 0 tasks, 4 known" in cli("import", "-", stdin=text).out
    assert tree(board)["c"] == ("b", "pending")


def test_a_dry_run_says_what_would_be_posted_and_posts_nothing(cli: Cli, rows: Callable[[], Rows]) -> None:
    cli("post", "old", "--key", "old")
    before = rows()
    answer = cli(
        "import", "-", "--dry-run", stdin=lines({"key": "old", "name": "x"}, {"name": "new", "after": ["old"]})
    )
    assert answer.out == "     2  new  (blocked)\nstandard input: would post 1 task, 1 known already\n"
    assert rows() == before


def test_a_file_without_tasks_is_no_error(cli: Cli) -> None:
    assert "nothing to import: standard input has no item" in cli("import", "-", stdin="just words\n").out
    assert cli("import", "-", "--format", "jsonl", "--json", stdin="\n").json["tasks"] == []


def test_issues_of_beads_become_tasks(cli: Cli, board: tiebreak.Board, tmp_path: Path) -> None:
    def link(child: str, on: str, kind: str) -> dict[str, str]:
        return {"issue_id": child, "depends_on_id": on, "type": kind, "created_at": "2025-12-18T02:02:00.4-08:00"}

    (tmp_path / "issues.jsonl").write_text(
        lines(
            {
                "id": "bd-1.1",
                "title": "Child",
                "description": "What to do",
                "design": "How",
                "notes": "",
                "status": "in_progress",
                "priority": 0,
                "issue_type": "bug",
                "assignee": "ann",
                "labels": ["ui", "needs review"],
                "created_at": "2025-12-18T02:02:00.468223-08:00",
                "dependencies": [
                    link("bd-1.1", "bd-1", "parent-child"),
                    link("bd-1.1", "bd-2", "blocks"),
                    link("bd-1.1", "bd-4", "blocks"),
                    link("bd-1.1", "bd-3", "discovered-from"),
                ],
                "comments": [
                    {
                        "id": 1,
                        "issue_id": "bd-1.1",
                        "author": "Ann B",
                        "text": "hm",
                        "created_at": "2025-12-18T02:00:00.123456789-07:00",
                    },
                    {"id": 2, "issue_id": "bd-1.1", "author": "", "text": "ok", "created_at": "0001-01-01T00:00:00Z"},
                ],
            },
            {"id": "bd-1", "title": "Epic", "issue_type": "epic", "dependencies": [link("bd-1", "bd-1.1", "blocks")]},
            {"id": "bd-2", "title": "Blocker", "status": "blocked", "priority": 4, "issue_type": "task"},
            {"id": "bd-3", "title": "Closed", "status": "closed", "priority": 2, "close_reason": "fixed"},
            {"id": "bd-4", "title": "Deleted", "status": "tombstone", "priority": 2},
            {"id": "bd-5", "title": "t" * 900, "status": "open", "priority": 3, "issue_type": "decision"},
            {"_type": "memory", "key": "k", "value": "v"},
        )
    )

    answer = cli("import", "issues.jsonl")

    assert answer.out == "issues.jsonl: posted 5 tasks, 0 known already, 2 skipped\n", answer
    child, epic, old = (board.tasks.get(ref=ref) for ref in ("bd-1.1", "bd-1", "bd-3"))
    assert (child.name, child.body, child.kind, child.priority) == (
        "Child",
        "What to do\n\n## Design\n\nHow",
        "bug",
        "urgent",
    )
    assert (child.tags, child.state, child.parent) == (("ui", "needs-review"), "blocked", epic.number)
    assert child.payload["beads"]["assignee"] == "ann"
    assert (child.payload["beads"]["discovered-from"], child.payload["beads"]["status"]) == (["bd-3"], "in_progress")
    assert [task.key for task in board.tasks.after(ref="bd-1.1")] == ["bd-2"]
    assert [task.key for task in board.tasks.after(ref="bd-1")] == ["bd-1.1"]
    [comment, dateless] = board.messages.comments(ref="bd-1.1")
    assert (comment.sender, comment.sent_at) == ("Ann B (imported)", 1766048400.123456)
    assert dateless.sender == "somebody (imported)"
    assert (old.state, old.result) == ("completed", "fixed")
    assert board.tasks.get(ref="bd-2").priority == "low"
    long = board.tasks.get(ref="bd-5")
    assert (long.kind, long.tags, long.state, long.body) == ("task", ("decision",), "pending", "t" * 900)
    assert long.name.endswith("…")
    assert "posted 0 tasks, 5 known" in cli("import", "issues.jsonl").out


# ── Large files ──────────────────────────────────────────────────────────────────────────────────────


def test_a_large_file_is_split_so_that_every_reference_is_found(
    cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_LIST", 10)
    many = 95
    text = lines(
        *({"id": f"t{i}", "name": f"t{i}", "after": [f"t{i + 1}"], "parent": f"t{i + 2}"} for i in range(many - 2)),
        {"id": f"t{many - 2}", "name": "last but one", "after": [f"t{many - 1}"]},
        {"id": f"t{many - 1}", "name": "last", "parent": "t0"},
    ).replace(', "parent": "t0"', "")

    assert f"posted {many} tasks" in cli("import", "-", stdin=text).out
    assert [task.key for task in board.tasks.after(ref="t9")] == ["t10"]
    assert board.tasks.get(ref="t9").parent == board.tasks.get(ref="t11").number
    assert f"would post 0 tasks, {many} known" in cli("import", "-", "--dry-run", stdin=text).out


def test_a_dry_run_of_a_large_file_finds_references_to_other_parts(
    cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_LIST", 2)
    text = lines(
        *({"id": f"t{i}", "name": f"t{i}", "after": [f"t{i + 1}"]} for i in range(7)), {"id": "t7", "name": "x"}
    )
    assert "would post 8 tasks" in cli("import", "-", "--dry-run", stdin=text).out
    assert board.tasks.list() == []


def test_a_failure_in_a_later_part_can_be_continued(
    cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_LIST", 2)
    good = [{"id": f"t{i}", "name": f"t{i}"} for i in range(4)]

    answer = cli("import", "-", stdin=lines(*good, {"name": "bad", "after": ["nowhere"]}))

    assert answer.code == 1
    assert "standard input:5: after: no task 'nowhere'" in answer.err
    assert "4 tasks posted already; importing the file again continues with the others" in answer.err
    assert "posted 1 task, 4 known" in cli("import", "-", stdin=lines(*good, {"name": "bad", "after": ["t0"]})).out
    assert len(board.tasks.list()) == 5


def test_a_circle_of_parents_and_dependencies_stays_in_one_part(
    cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_LIST", 3)
    epic = {"id": "epic", "name": "epic", "after": ["a", "b"]}
    parts = [{"id": name, "name": name, "parent": "epic"} for name in "ab"]
    assert "posted 4 tasks" in cli("import", "-", stdin=lines({"name": "x"}, parts[0], epic, parts[1])).out
    assert board.tasks.get(ref="epic").state == "blocked"
    more = [{"id": f"{name}2", "name": name, "parent": "epic2"} for name in "abc"]
    wide = {"id": "epic2", "name": "epic2", "after": ["a2", "b2", "c2"]}
    assert "4 tasks refer to each other in a circle" in cli("import", "-", stdin=lines(*more, wide)).err


# ── Exporting ────────────────────────────────────────────────────────────────────────────────────────


def furnish(board: tiebreak.Board) -> None:
    """Tasks with everything that is exported; parents and predecessors often have the higher numbers."""
    board.tasks.post(name="child", key="child", body="text\n- [ ] like an item\n```\n- [ ] unclosed", tags=["a"])
    board.tasks.post(name="later", payload={"a": [1]}, priority="urgent", queue="q", kind="bug")
    board.tasks.post(name="epic", key="epic", after=["child"])
    board.tasks.edit(ref="child", parent="epic")
    board.tasks.depend(ref="#2", after=["epic"])
    board.tasks.claim(ref="over")
    board.tasks.complete(ref="over", result={"ok": True})
    board.tasks.post(name="dropped", key="dropped", parent="over")
    board.tasks.cancel(ref="dropped", reason="no need")
    board.messages.send(body="first\ncomment", about="child")
    board.messages.send(body="second", about="child")
    board.jobs.submit(command="make", key="job")


def shape(entries: list[dict[str, Any]]) -> dict[str, Any]:
    names = {entry["id"]: entry["name"] for entry in entries}
    return {
        entry["name"]: {
            **{field: value for field, value in entry.items() if field not in ("id", "number", "key")},
            "parent": names.get(entry.get("parent", "")),
            "after": [names[ref] for ref in entry.get("after", ())],
        }
        for entry in entries
    }


def test_an_export_reproduces_the_tasks_on_an_empty_board(
    cli: Cli, board: tiebreak.Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(board)
    assert cli("export", "all.jsonl", "--all").out == "exported 5 tasks to all.jsonl\n"
    exported = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]

    other = ("--board", str(tmp_path / "other.db"))
    assert "posted 5 tasks" in cli("import", "all.jsonl", *other).out
    assert cli("export", "again.jsonl", "--all", *other).code == 0

    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert shape(again) == shape(exported)
    assert {entry["name"]: len(entry.get("comments", ())) for entry in again}["child"] == 2
    for name in ("all.jsonl", "again.jsonl"):
        assert "posted 0 tasks, 5 known" in cli("import", "all.jsonl", *(other if name == "again.jsonl" else ())).out


def test_parents_and_predecessors_come_first(cli: Cli, board: tiebreak.Board) -> None:
    for i in range(6):
        board.tasks.post(name=f"t{i}", key=f"t{i}")
    for i in range(5):
        board.tasks.depend(ref=f"t{i}", after=[f"t{i + 1}"])
    board.tasks.edit(ref="t5", parent=board.tasks.post(name="parent").number)
    entries = [json.loads(line) for line in cli("export").out.splitlines()]
    assert [entry["name"] for entry in entries] == ["parent", "t5", "t4", "t3", "t2", "t1", "t0"]


def test_only_open_tasks_are_exported_unless_asked(cli: Cli, board: tiebreak.Board) -> None:
    furnish(board)

    def names(*words: str) -> set[str]:
        return {json.loads(line)["name"] for line in cli("export", *words).out.splitlines()}

    assert names() == {"child", "later", "epic"}
    assert names("--all") == {"child", "later", "epic", "over", "dropped"}
    assert names("--state", "cancelled") == {"dropped"}
    assert "parent" not in json.loads(cli("export", "--state", "cancelled").out)


def test_a_check_list_can_be_imported_again(cli: Cli, board: tiebreak.Board, tmp_path: Path) -> None:
    furnish(board)
    board.tasks.edit(ref="#2", parent="child")
    assert cli("export", "all.md", "--all").code == 0
    assert "posted 0 tasks, 5 known" in cli("import", "all.md").out

    other = tmp_path / "other.db"
    assert "posted 5 tasks" in cli("import", "all.md", "--board", str(other)).out
    with tiebreak.open(other, project="demo") as there:
        assert tree(there) == {
            "epic": (None, "pending"),
            "child": ("epic", "pending"),
            "later": ("child", "pending"),
            "over": (None, "completed"),
            "dropped": ("over", "cancelled"),
        }
        assert there.tasks.get(ref="child").body == "text\n- [ ] like an item\n```\n- [ ] unclosed\n```"


def test_a_reference_to_a_task_that_ends_meanwhile_is_left_out(
    cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak.cli import exporting

    monkeypatch.setattr(exporting, "_PAGE", 1)
    first = board.tasks.post(name="first", key="first")
    board.tasks.post(name="second", key="second")
    board.tasks.depend(ref="first", after=["second"])
    board.tasks.edit(ref="first", parent="second")
    add = exporting._Spool._add

    def end_it(spool: exporting._Spool, entry: dict[str, Any]) -> None:
        add(spool, entry)
        if entry["number"] == first.number:
            board.tasks.claim(ref="second")
            board.tasks.complete(ref="second")

    monkeypatch.setattr(exporting._Spool, "_add", end_it)
    [entry] = [json.loads(line) for line in cli("export").out.splitlines()]
    assert entry.get("after") == []
    assert "parent" not in entry


def test_a_file_is_not_overwritten_unless_asked(cli: Cli, board: tiebreak.Board, tmp_path: Path) -> None:
    board.tasks.post(name="a")
    file = tmp_path / "x.jsonl"
    file.write_text("mine")

    answer = cli("export", "x.jsonl")
    assert (answer.code, file.read_text()) == (1, "mine")
    assert "tb: export x.jsonl: exists already" in answer.err

    assert cli("export", "x.jsonl", "--force").code == 0
    assert json.loads(file.read_text())["name"] == "a"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted({"x.jsonl", *(n for n in os.listdir(tmp_path) if "board" in n)})
    assert cli("export", "nowhere/x.jsonl").err.startswith("tb: export nowhere/x.jsonl: No such file or directory")


def test_programs_get_an_export_as_one_json_value(cli: Cli, board: tiebreak.Board) -> None:
    assert cli("export", "--json").json == []
    board.tasks.post(name="a")
    board.tasks.post(name="b")
    assert [entry["name"] for entry in cli("export", "--json").json] == ["a", "b"]
    assert cli("export", "--json", "--format", "markdown").code == 2


def test_an_export_to_a_reader_that_has_ended_is_no_error(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.import_([{"name": f"t{i}", "body": "x" * 1000} for i in range(200)])
    answer = tb.sh("tb export | head -n 1")
    assert (answer.code, answer.err) == (0, "")


def test_import_reads_what_export_writes_through_a_pipe(tb: Tb, board: tiebreak.Board) -> None:
    furnish(board)
    answer = tb.sh("tb export --all | tb import - --project elsewhere")
    assert answer.out == "standard input: posted 5 tasks, 0 known already\n", answer


def test_a_json_array_is_refused_and_not_read_as_an_empty_check_list(tb: Tb) -> None:
    refused = tb("import", "-", stdin='[\n {"name": "a"}]')
    assert (refused.code, "a JSON array" in refused.err) == (2, True)


def test_an_export_warns_of_tasks_that_wait_for_a_question(tb: Tb) -> None:
    tb.ok("ask", "which?", "--key", "q")
    tb.ok("post", "later", "--after", "q")
    answer = tb("export")
    assert "1 task waits for a question or a job, which are not exported" in answer.err

"""A refusal's next step is said in the words of the interface that was used."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiebreak
from tiebreak import Board, Lost, Unavailable
from tiebreak.advice import PYTHON, REPAIRS, advice
from tiebreak.cli.advice import COMMANDS
from tiebreak.compat.advice import COORD, WORKRON
from tiebreak.daemon.advice import REQUESTS, body_of
from tiebreak.engine.move import server_backup
from tiebreak.errors import Refused, from_dict
from tiebreak.mcp.advice import CALLS
from tiebreak.worker import request_sender

SOURCES = Path(tiebreak.__file__).parent
WORDS = {"python": PYTHON, "cli": COMMANDS, "http": REQUESTS, "mcp": CALLS}
OPERATORS = ("daemon", "engine/move", "sessions", "vault", "worker")
"""Packages with refusals that only an operator of `tb` can meet."""
COMMAND_LINES = ("top/", "cli", "program", "guard", "compat/coord_commands.py", "compat/gptme.py")
"""Where text may name commands and their options. What the guard says is for agents that have a shell."""
A_COMMAND = re.compile(r"`tb |(?:^|[ (])--[a-z]")
NO_REFUSAL = {
    "daemon/pages.py": "examples with curl",
    "daemon/web/board.py": "a page for people, who have a terminal",
    "daemon/web/refusal_page.py": "a page for people, who have a terminal",
    "project_rules.py": "options of git",
    "sessions/remote_control.py": "a flag of another program, and a warning that `tb handoff` prints",
}


@pytest.fixture
def refusal(tmp_path: Path) -> Lost:
    """What bob gets who reaches for alice's task."""
    path = str(tmp_path / "board.db")
    with tiebreak.open(path, agent="alice~1", project="demo") as alice, tiebreak.open(path, agent="bob~1") as bob:
        alice.tasks.claim(ref="docs")
        with pytest.raises(Lost) as caught:
            Board(bob.engine, agent="bob~1", project="demo").tasks.claim(ref="docs")
    return caught.value


def code_of(*places: str) -> str:
    """The source of these packages and modules, without the words themselves; of all if none is named."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for path in SOURCES.rglob("*.py")
        if path.name != "advice.py" and (not places or str(path.relative_to(SOURCES)).startswith(places))
    )


@pytest.mark.parametrize("interface", WORDS)
def test_no_interface_lacks_words_for_a_reason(interface: str) -> None:
    assert sorted(set(PYTHON) - set(WORDS[interface])) == []


@pytest.mark.parametrize("interface", WORDS)
def test_only_a_reason_that_nobody_but_an_operator_meets_has_words_on_the_command_line_alone(interface: str) -> None:
    more = set(WORDS[interface]) - set(PYTHON)
    everywhere, operators = code_of(), code_of(*OPERATORS)
    assert sorted(code for code in more if everywhere.count(f'"{code}"') > operators.count(f'"{code}"')) == []
    assert not more or interface == "cli"


def test_every_reason_that_is_given_has_words_and_every_word_a_reason() -> None:
    code = code_of()
    assert sorted(reason for reason in COMMANDS if f'"{reason}"' not in code) == []
    assert set(re.findall(r'reason="([a-z-]+)"', code)) <= set(COMMANDS)


def texts(tree: ast.AST) -> list[str]:
    """Every text in a module but docstrings and single words such as `--quiet`, with `…` for what is filled in."""
    found: list[str] = []
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
    return [text for text in found if not re.fullmatch(r"--[a-z-]+", text)]


def test_no_package_below_the_command_line_tells_its_caller_to_type_a_command() -> None:
    told = {}
    for path in SOURCES.rglob("*.py"):
        name = str(path.relative_to(SOURCES))
        if not name.startswith(COMMAND_LINES) and path.name != "advice.py" and name not in NO_REFUSAL:
            told[name] = [text for text in texts(ast.parse(path.read_text("utf-8"))) if A_COMMAND.search(text)]
    assert {name: found for name, found in told.items() if found} == {}, "give a reason, and words in cli/advice.py"


def test_a_text_that_names_a_command_is_seen() -> None:
    source = (
        '"""`tb doc`"""\nraise E(f"--addr {x}: no", hint="run `tb status`")\nrun("git", "--quiet", "a", "or --x")\n'
    )
    seen = {text for text in texts(ast.parse(source)) if A_COMMAND.search(text)}
    assert seen - {"--addr "} == {"--addr …: no", "or --x", "run `tb status`"}


def test_a_python_caller_is_told_a_command_only_where_python_has_no_call() -> None:
    assert [words for reason, words in PYTHON.items() if A_COMMAND.search(words) and reason not in REPAIRS] == []


@pytest.mark.parametrize("words", [COORD, WORKRON])
def test_a_client_of_another_protocol_is_told_no_method_that_it_lacks(words: dict[str, str]) -> None:
    assert set(words) <= set(REQUESTS)
    ours = {
        f"{group}.{name}" for text in REQUESTS.values() for group, name in re.findall(r"\b([a-z]+)\.([a-z]+)", text)
    }
    assert ours, "the search above finds nothing any more"
    assert [text for text in words.values() if any(method in text for method in ours) or "/events" in text] == []


def test_an_http_client_is_not_told_to_type_a_command(refusal: Lost) -> None:
    assert not [words for words in REQUESTS.values() if re.search(r"`?\btb |--|TIEBREAK_", words)]
    asked = "ask alice for it with messages.send, or wait for its next event at /events; tasks.next finds other work"
    assert body_of(refusal)["hint"] == asked


def test_the_command_line_tells_a_command_also_for_a_refusal_by_a_daemon(refusal: Lost) -> None:
    far = from_dict(body_of(refusal))
    typed = "wait for it with --wait, or ask for it with `tb send alice …`; `tb next` finds other work"
    assert advice(far, COMMANDS) == typed
    assert far.hint == refusal.hint == "wait for it with wait=, or ask alice for it; board.next() finds other work"


def test_a_reason_of_a_later_version_keeps_the_hint_that_came_with_it() -> None:
    far = from_dict({"error": "Refused", "message": "no", "reason": "moon-full", "hint": "wait for the new moon"})
    assert type(far) is Refused
    assert {advice(far, words) for words in WORDS.values()} == {"wait for the new moon"}


def test_a_refusal_without_its_facts_still_has_a_hint() -> None:
    far = from_dict({"error": "Lost", "message": "no", "reason": "task-held", "hint": "ask somebody"})
    assert advice(far, COMMANDS) == "ask somebody"


def test_what_opening_a_moved_board_refuses_reaches_the_operator_of_a_worker_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Board:
        raise Unavailable("damaged", reason="board-damaged", sqlite="malformed")

    monkeypatch.setattr(request_sender, "reopened", refuse)
    board = tiebreak.open(tmp_path / "board.db", agent="a~1", project="demo")
    with board, pytest.raises(Unavailable, match="cannot be opened: damaged") as caught:
        request_sender.follow(board, Unavailable("moved", moved="elsewhere"))
    assert advice(caught.value, COMMANDS) == COMMANDS["board-damaged"]
    assert caught.value.data["moved"] == "elsewhere"


def test_a_failed_backup_of_a_server_speaks_of_a_backup_and_not_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(server_backup, "_snapshot", fail)
    target = tmp_path / "copy.db"
    with pytest.raises(Unavailable) as caught:
        server_backup.to_file(SimpleNamespace(close=lambda: None), "postgresql://host/board", str(target))
    assert caught.value.message == f"backup {target}: No space left on device"
    assert body_of(caught.value)["hint"] == "the board was not changed; ask for GET /backup again"
    assert "run the same command again" in advice(caught.value, COMMANDS)

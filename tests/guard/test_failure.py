"""When the guard itself fails: open goes on with a warning, closed refuses; nothing that is sent makes it fall over."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tiebreak import Unavailable
from tiebreak.cli.context import Context
from tiebreak.guard.client_hooks import CLIENTS, respond
from tiebreak.guard.failure_policy import policy
from tiebreak.program import main

from .actors import Claude, git

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

Start = Callable[..., Claude]
FIRST = {"claude": "PreToolUse", "codex": "PreToolUse", "cursor": "preToolUse", "gemini": "BeforeTool"}


def no_board() -> Engine:
    raise Unavailable("board.db: disk I/O error")


@pytest.fixture
def closed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that would rather stand still than be edited unguarded."""
    git("config", "tiebreak.hooks", "closed", cwd=repo)
    monkeypatch.chdir(repo)
    return repo


def test_under_the_open_policy_work_goes_on_with_a_warning(claude: Start, repo: Path, engine: Engine) -> None:
    ann = claude("ann")
    answer = ann.ask("PreToolUse", json.dumps(ann.fields("PreToolUse", tool_name="Edit", tool_input={})).encode())
    assert (answer.out, answer.code) == (None, 1)  # exit code 1 does not block
    assert "file_path" in answer.err
    assert ann.board.events.read(event="agent.warned", project=None)[-1].note == answer.err


def test_a_board_that_is_not_there_is_a_failure_like_any_other(closed: Path, engine: Engine) -> None:
    ann = Claude("ann", closed, no_board)
    data = ann.fields("PreToolUse", tool_name="Edit", tool_input={"file_path": str(closed / "a.py")})
    assert ann.ask("PreToolUse", json.dumps(data).encode()).code == 2
    git("config", "tiebreak.hooks", "open", cwd=closed)
    assert ann.ask("PreToolUse", json.dumps(data).encode()).code == 1


def test_a_state_folder_that_cannot_be_made_is_named(claude: Start, repo: Path, tmp_path: Path) -> None:
    ann = claude("ann")
    shutil.rmtree(tmp_path / "state/tiebreak/guard")
    (tmp_path / "state/tiebreak/guard").write_text("in its place\n")
    data = ann.fields("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="1")
    answer = ann.ask("PreToolUse", json.dumps(data).encode())
    assert (answer.out, answer.code) == (None, 1)
    assert f"the guard's state in {tmp_path}/state/tiebreak" in answer.err


def test_a_board_that_never_answers_is_a_failure_before_the_client_loses_patience(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Claude("ann", closed, no_board).fields("PreToolUse", tool_name="Edit", tool_input={"file_path": "a.py"})
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(data)))
    monkeypatch.setattr("tiebreak.cli.hook.LONGEST", 0.3)
    monkeypatch.setattr(Context, "board", property(lambda _: threading.Event().wait()))
    assert main(["hook", "claude", "PreToolUse"]) == 2


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "SessionEnd", "UserPromptSubmit"])
def test_the_closed_policy_never_blocks_what_has_happened_or_the_end_of_a_session(closed: Path, event: str) -> None:
    assert respond("claude", event, b"{", no_board).code == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[hooks]\nfailure = "closed"\n', "closed"),
        ('[hooks]\nfailure = "open"\n', "open"),
        ("[other]\nx = 1\n", "open"),
        ("[hooks\n", "closed"),
        ("hooks = 3\n", "closed"),
        ('[hooks]\nfailure = "clsed"\n', "closed"),
        ("\udcff", "closed"),
    ],
)
def test_a_policy_that_cannot_be_read_counts_as_closed(repo: Path, content: str, expected: str) -> None:
    (repo / ".tiebreak.toml").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert policy(str(repo / "src")) == expected


def test_the_clones_own_setting_goes_before_the_files(repo: Path) -> None:
    (repo / ".tiebreak.toml").write_text('[hooks]\nfailure = "closed"\n')
    git("config", "tiebreak.hooks", "open", cwd=repo)
    assert policy(str(repo)) == "open"


# ── Fuzz ─────────────────────────────────────────────────────────────────────────────────────────────

NAMES = [
    "session_id",
    "conversation_id",
    "cwd",
    "tool_name",
    "tool_input",
    "workspace_roots",
    "agent_id",
    "tool_use_id",
]
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["Edit", "Write", "Bash"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "file_path", "command"]), inner, max_size=4)
    ),
    max_leaves=8,
)
EDITS = {"claude": "Edit", "codex": "apply_patch", "cursor": "Write", "gemini": "replace"}


def good(client: str, repo: Path) -> dict[str, Any]:
    """An edit of a file that somebody else holds: whatever is changed in it, it must not pass."""
    patch = f"*** Begin Patch\n*** Update File: {repo}/a.py\n@@\n-one\n+1\n*** End Patch\n"
    given = {"command": patch} if client == "codex" else {"file_path": str(repo / "a.py")}
    session = "conversation_id" if client == "cursor" else "session_id"
    return {session: "ben", "cwd": str(repo), "tool_name": EDITS[client], "tool_input": given, "tool_use_id": "t"}


def refused(client: str, code: int, out: dict[str, Any] | None) -> bool:
    said = (out or {}).get("hookSpecificOutput", {})
    return code == 2 or "deny" in (
        said.get("permissionDecision"),
        (out or {}).get("permission"),
        (out or {}).get("decision"),
    )


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(text=st.binary(max_size=200), client=st.sampled_from(CLIENTS))
@example(text=b"", client="claude")
@example(text=b"[" * 100_000, client="claude")
@example(text=b'\xef\xbb\xbf{"session_id": 1e999}', client="gemini")
@example(text=b'{"session_id": "' + b"9" * 5000 + b'"}', client="codex")
def test_what_is_no_hook_input_is_refused_under_closed(closed: Path, engine: Engine, text: bytes, client: str) -> None:
    answer = respond(client, FIRST[client], text, lambda: engine)
    assert answer.code == 2
    assert "internal error" not in answer.err
    assert "Traceback" not in answer.err


@quick
@given(
    client=st.sampled_from(CLIENTS), broken=st.dictionaries(st.sampled_from(NAMES[:6]), values, min_size=1, max_size=2)
)
def test_a_broken_edit_of_a_held_file_never_passes_under_closed(
    closed: Path, engine: Engine, claude: Start, client: str, broken: dict[str, Any]
) -> None:
    claude("ann").edit("a.py", "one", "one")
    data = {**good(client, closed), **broken}
    still_an_edit = data["tool_name"] == EDITS[client] or not isinstance(data["tool_name"], str)
    answer = respond(client, FIRST[client], json.dumps(data).encode(), lambda: engine)
    assert "internal error" not in answer.err, answer.err
    if still_an_edit and _names_the_file(data["tool_input"], good(client, closed)["tool_input"]):
        assert refused(client, answer.code, answer.out), (data, answer.out)


def _names_the_file(given: Any, wanted: dict[str, str]) -> bool:
    """Whether the call is still about the held file, or about nothing that can be told."""
    return given == wanted or not isinstance(given, dict) or not any(isinstance(each, str) for each in given.values())


@quick
@given(
    client=st.sampled_from(CLIENTS),
    data=values,
    event=st.sampled_from([*FIRST.values(), "PostToolUse", "stop", "Stop", "x"]),
)
def test_no_json_input_crashes_the_hook(
    repo: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, client: str, data: Any, event: str
) -> None:
    monkeypatch.chdir(repo)
    answer = respond(client, event, json.dumps(data).encode(), lambda: engine)
    assert answer.code in (0, 1)
    assert "internal error" not in answer.err, answer.err


def test_an_unknown_client_is_refused_under_closed(closed: Path) -> None:
    assert respond("clade", "PreToolUse", b"{}", no_board).code == 2

"""Every command answers people and programs, and explains itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiebreak
from tiebreak.cli.parser import GLOBAL
from tiebreak.program import find, main, names

from .command import PATIENCE, TB, Answer, Tb, read_lines, until, until_asleep

pytestmark = pytest.mark.usefixtures("counted")

ME = {"TIEBREAK_AGENT": "me~1"}
CASES = {
    "claim": ["claim", "ready"],
    "next": ["next"],
    "extend": ["extend", "mine"],
    "complete": ["complete", "mine"],
    "fail": ["fail", "mine"],
    "release": ["release", "mine"],
    "post": ["post", "something new"],
    "depend": ["depend", "ready", "--after", "mine"],
    "cancel": ["cancel", "ready"],
    "retry": ["retry", "over"],
    "show": ["show", "mine"],
    "edit": ["edit", "mine", "--body", "what it is about"],
    "comment": ["comment", "mine", "half of it is done"],
    "tasks": ["tasks"],
    "import": ["import", "plan.md"],
    "export": ["export", "tasks.jsonl"],
    "submit": ["submit", "make all"],
    "jobs": ["jobs"],
    "logs": ["logs", "job"],
    "progress": ["progress", "40", "--ref", "job"],
    "guard-epoch": ["guard-epoch", "job"],
    "queue": ["queue", "list"],
    "graph": ["graph", "job"],
    "cron": ["cron", "list"],
    "work": ["work", "--burst"],
    "hold": ["hold", "lock:new"],
    "drop": ["drop", "lock:mine"],
    "holds": ["holds"],
    "waits": ["waits"],
    "renew": ["renew", "lock:mine"],
    "transfer": ["transfer", "lock:mine", "--to", "bob~2"],
    "break": ["break", "lock:mine", "--reason", "nobody is there"],
    "adopt": ["adopt"],
    "recover": ["recover"],
    "run": ["run", "--hold", "lock:new", "--", "echo", '{"from": "the command"}'],
    "send": ["send", "bob", "hello", "--later"],
    "inbox": ["inbox"],
    "ack": ["ack", "1"],
    "ask": ["ask", "which one?", "--choices", "a,b"],
    "answer": ["answer", "open", "this"],
    "questions": ["questions"],
    "announce": ["announce", "testing"],
    "heartbeat": ["heartbeat"],
    "leave": ["leave"],
    "agents": ["agents"],
    "whoami": ["whoami"],
    "spawn": ["spawn", "hand", "--settle", "0s", "--", "cat"],
    "ps": ["ps"],
    "attach": ["attach", "lead"],
    "peek": ["peek", "lead"],
    "tell": ["tell", "lead", "hello"],
    "stop": ["stop", "lead"],
    "rm": ["rm", "over"],
    "handoff": ["handoff", "lead", "--queue"],
    "drain": ["drain"],
    "rc": ["rc", "status"],
    "init": ["init", "--yes"],
    "hook": ["hook", "claude", "SessionStart"],
    "guard": ["guard", "install"],
    "commit": ["commit", "notes.txt", "-m", "a note"],
    "why": ["why", "mine"],
    "wait": ["wait", "--after", "0", "--timeout", "5s"],
    "events": ["events"],
    "status": ["status"],
    "top": ["top", "--once"],
    "project": ["project"],
    "prune": ["prune"],
    "backup": ["backup", "copy.db"],
    "doctor": ["doctor"],
    "batch": ["batch"],
    "serve": ["serve", "--print-unit"],
    "mcp": ["mcp", "--help"],
    "web": ["web", "--help"],
    "vault": ["vault", "notes"],
    "migrate": ["migrate", "--to", "new.db", "--dry-run"],
    "restore": ["restore", "monday.db", "--yes"],
    "coord": ["coord", "version"],
    "coordination": ["coordination", "status"],
    "demo": ["demo", "--help"],
    "help": ["help"],
    "completion": ["completion", "bash"],
    "version": ["version"],
}
QUIET = {"heartbeat", "progress", "guard-epoch", "peek"}
IN_TERMINALS = {"spawn", "attach", "peek", "tell", "stop", "handoff"}
LEAD = ["spawn", "lead", "--settle", "0s", "--", "cat"]
REQUEST = '{"id": 1, "method": "events.last"}\n'
STEP = '{"session_id": "one", "cwd": "/", "hook_event_name": "SessionStart", "source": "startup"}'
GIT = ("init --quiet", "config user.name me", "config user.email me@example.org")


@pytest.fixture
def stage(board: tiebreak.Board, tmp_path: Path) -> tiebreak.Board:
    """A board with something for every command, and a repository with a file that is not in it yet."""
    for words in GIT:
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("a note\n")
    (tmp_path / "plan.md").write_text("- [ ] something new\n")
    board.tasks.post(name="ready", key="ready", priority="high")
    board.tasks.claim(ref="mine")
    board.tasks.claim(ref="over")
    board.tasks.fail(ref="over", retry=False)
    board.jobs.submit(command="make", key="job")
    [job] = board.jobs.next()
    board.jobs.append(ref="job", epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": "made"}])
    board.holds.take(resources=["lock:mine"])
    board.questions.ask("which?", key="open")
    board.call("messages.send", {"body": "for me", "to": "me", "agent": "bob~2", "later": True})
    board.agents.announce()
    process = {"host": "here", "boot": "1.1", "pid": 7, "started": 70}
    board.call("sessions.begin", {"session": "over~spawn-1", "role": "worker", "command": ["agent"], **process})
    board.sessions.end(session="over~spawn-1", note="over")
    board.backup(tmp_path / "monday.db")
    return board


@pytest.fixture
def terminals() -> Iterator[dict[str, str]]:
    """A tmux server of one's own."""
    folder = tempfile.mkdtemp(prefix="tb-")  # sockets have short paths
    environment = {"TMUX_TMPDIR": folder, "TIEBREAK_TMUX_SOCKET": "t"}
    yield environment
    end = ["tmux", "-L", "t", "kill-server"]
    subprocess.run(end, env={**os.environ, **environment}, capture_output=True, check=False, timeout=PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)


def test_no_command_goes_untried() -> None:
    assert set(CASES) == set(names())


def test_the_installed_command_is_the_one_in_the_tree() -> None:
    tree = Path(__file__).parents[2] / "scripts" / "tb"
    assert Path(TB).read_text().partition("\n")[2] == tree.read_text().partition("\n")[2], "install anew: make check"


@pytest.mark.parametrize("name", names())
def test_people_get_an_answer(name: str, stage: tiebreak.Board, tb: Tb, terminals: dict[str, str]) -> None:
    tb.environment.update(terminals)
    if name in IN_TERMINALS:
        tb.ok(*LEAD)
    answer = tb(*CASES[name], env={**ME}, stdin=STEP if name == "hook" else REQUEST)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.strip() or name in QUIET


@pytest.mark.parametrize("name", [name for name in names() if name not in ("run", "batch", "work", "mcp")])
def test_programs_get_json(
    name: str,
    stage: tiebreak.Board,
    cli: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
    terminals: dict[str, str],
) -> None:
    for variable, value in {**terminals, "TIEBREAK_AGENT": "me~1"}.items():
        monkeypatch.setenv(variable, value)
    if name in IN_TERMINALS:
        assert cli(*LEAD).code == 0
    answer = cli("--json", *CASES[name], stdin=STEP) if "--" in CASES[name] else cli(*CASES[name], "--json", stdin=STEP)
    assert (answer.code, answer.err) == (0, "")
    assert isinstance(answer.json, (dict, list))


def test_programs_get_json_from_what_runs_and_what_streams(stage: tiebreak.Board, tb: Tb) -> None:
    assert tb("--json", *CASES["run"], env={**ME}).json == {"from": "the command"}
    assert [json.loads(line)["event"] for line in tb.ok("work", "--burst", "--json").splitlines()] == [
        "ready",
        "stopped",
    ]
    assert [json.loads(line)["id"] for line in tb.ok("batch", "--json", stdin=2 * REQUEST).splitlines()] == [1, 1]


@pytest.mark.parametrize("words", [["show", "#99"], ["claim", "mine"], ["nonsense"], ["post"], ["show", "#x"]])
def test_programs_get_errors_as_json_too(words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    answer = cli(*words, "--json")
    assert answer.code in (1, 2)
    assert answer.err == ""
    assert {"error", "message"} <= set(answer.json)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["human", "json"])
def test_a_followed_stream_comes_line_by_line_also_into_a_pipe(form: list[str], tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="one")
    with tb.start("events", "--follow", "--after", "0", *form) as running:
        lines = read_lines(running)
        until(lambda: len(lines) == 1, "the first event arrives", PATIENCE)
        board.tasks.post(name="two")
        until(lambda: len(lines) == 2, "the second event arrives", PATIENCE)
    assert "one" in lines[0]
    assert "two" in lines[1]
    if form:
        assert [json.loads(line)["event"] for line in lines] == ["task.posted"] * 2


@pytest.mark.parametrize(("limit", "before"), [([], []), (["--limit", "2"], ["2", "3"]), (["--limit", "0"], [])])
def test_a_followed_stream_begins_with_the_newest_that_were_asked_for(
    limit: list[str], before: list[str], tb: Tb, board: tiebreak.Board
) -> None:
    for number in range(4):
        board.tasks.post(name=f"task {number}")
    with tb.start("events", "-f", *limit) as running:
        lines = read_lines(running)
        until(lambda: len(lines) == len(before), "the newest events arrive", PATIENCE)
        until_asleep(running)
        board.tasks.post(name="task new")
        until(lambda: len(lines) == len(before) + 1, "the new event arrives", PATIENCE)
    assert [line.split()[-1] for line in lines] == [*before, "new"]


@pytest.mark.parametrize("form", [[], ["--json"], ["--peek"]], ids=["human", "json", "peek"])
def test_a_followed_inbox_comes_message_by_message(form: list[str], tb: Tb, board: tiebreak.Board) -> None:
    board.messages.send(later=True, body="one", to="bob")
    with tb.start("inbox", "--follow", "--as", "bob", *form) as running:
        lines = read_lines(running)
        until(lambda: "one" in "".join(lines), "the first message arrives", PATIENCE)
        board.messages.send(later=True, body="two", to="bob")
        until(lambda: "two" in "".join(lines), "the second message arrives", PATIENCE)
    if "--json" in form:
        assert [json.loads(line)["body"] for line in lines] == ["one", "two"]


@pytest.mark.parametrize("name", names())
def test_help_tells_how_to_call_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: tb ") or name == "help"
    for option in (*find(name).options, *GLOBAL):
        assert f"--{option.name}" in text
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("name", names())
def test_every_argument_and_option_has_a_help_text(name: str) -> None:
    command = find(name)
    assert command.text.endswith(".")
    assert (command.run.__doc__ or "").strip()
    assert all(option.text.strip() for option in (*command.options, *GLOBAL))
    assert all(argument.text.strip() for argument in command.arguments)


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_help_lists_every_command_and_every_exit_code(words: list[str], cli: Callable[..., Answer]) -> None:
    answer = cli(*words)
    assert answer.code == 0
    assert all(f"\n  {name} " in answer.out for name in names())
    assert "Exit codes: 0" in answer.out


def test_an_example_is_a_command_that_parses() -> None:
    import shlex

    from tiebreak.cli.parser import Args, parse, split

    for name in names():
        example = find(name).example
        if example.startswith("tb "):
            words = shlex.split(example)[1:]
            found, options, left = split(words)
            assert found == name
            assert isinstance(parse(find(name), left, options), Args)

"""`tb coordination …` as agents run it: each command is a process, and only the name identifies the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.compat.gptme import GROUP, coordination

from ..cli.command import Answer, Tb, complaint, measured
from ..daemons import serving

PLACES = ["a file", "a daemon over TCP", "a daemon's socket"]


class Shell:
    """`shell("claim", "alice", "a.py")` runs `tb coordination claim alice a.py`."""

    def __init__(self, folder: Path, board: str | None = None) -> None:
        self.tb = Tb(folder)
        self.tb.environment.update(measured())
        if board is not None:
            self.tb.environment["TIEBREAK_BOARD"] = board

    def __call__(self, *words: str) -> Answer:
        return self.tb("coordination", *words)

    def code(self, *words: str) -> int:
        """How it ended: 0 or 1, and without a traceback."""
        answer = self(*words)
        assert "Traceback" not in answer.err
        return answer.code

    def json(self, *words: str) -> Any:
        """What a subcommand that has to succeed answers to a program."""
        answer = self(*words, "--json")
        assert (answer.code, answer.err) == (0, "")
        return answer.json

    def lapse(self, *words: str) -> int:
        """Claim for so short a time that the lease is over when the next command starts; the epoch."""
        return int(self.json(*words, "--ttl", "1ms")["epoch"])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[tiebreak.Board]:
    """The same board from Python."""
    with tiebreak.open(tmp_path / "board.db", agent="me~1", project="demo") as opened:
        yield opened


@pytest.fixture(params=PLACES)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """The same commands on each kind of board."""
    if request.param == "a file":
        yield Shell(tmp_path)
        return
    with serving(tmp_path) as daemon:
        yield Shell(tmp_path, daemon.url if "TCP" in request.param else f"unix:{daemon.socket}")


# ── The protocol ─────────────────────────────────────────────────────────────────────────────────────


def test_the_protocol_that_agents_are_told_works_on_every_board(anywhere: Shell) -> None:
    assert anywhere.code("announce", "alice", "Starting work on X") == 0
    assert anywhere.code("claim", "alice", "path/to/file.py") == 0
    assert anywhere.code("claim", "bob", "path/to/file.py") == 1
    assert anywhere.code("release", "bob", "path/to/file.py") == 1
    assert anywhere.code("release", "alice", "path/to/file.py") == 0
    assert anywhere.code("claim", "bob", "path/to/file.py") == 0
    assert anywhere.code("send", "alice", "Found bug in module Y", "--channel", "discoveries") == 0
    assert anywhere.code("work-claim", "alice", "task-1") == 0
    assert anywhere.code("work-claim", "bob", "task-1") == 1
    assert anywhere.code("work-complete", "bob", "task-1") == 1
    assert anywhere.code("work-complete", "alice", "task-1", "--result", "shipped") == 0
    assert anywhere.code("work-claim", "bob", "task-1") == 1
    assert [each["body"] for each in anywhere.json("inbox", "bob")] == ["Starting work on X", "Found bug in module Y"]
    [task] = anywhere.json("work-list")
    assert (task["key"], task["state"], task["holder"], task["result"]) == ("task-1", "completed", "alice", "shipped")
    assert [each["holder"] for each in anywhere.json("status")["leases"]] == ["bob"]


def test_a_refused_claim_names_the_holder_and_how_to_reach_it(shell: Shell) -> None:
    shell("claim", "alice", "a.py")
    shell("work-claim", "alice", "t")
    for words in (["claim", "bob", "a.py"], ["work-claim", "bob", "t"]):
        said = complaint(shell(*words), 1)
        assert "held by alice" in said
        assert "`tb coordination send bob … --to alice`" in said


def test_programs_learn_by_json_who_has_it(shell: Shell) -> None:
    shell("claim", "alice", "a.py")
    answer = shell("claim", "bob", "a.py", "--json")
    assert answer.code == 1
    assert (answer.json["error"], answer.json["holder"], answer.json["epoch"]) == ("Lost", "alice", 1)


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ttl", "lease"), [([], 1800), (["--ttl", "5"], 300), (["--ttl", "1.5"], 90), (["--ttl=2h"], 7200)]
)
def test_a_file_is_leased_for_thirty_minutes_unless_told_otherwise(
    ttl: list[str], lease: int, shell: Shell, board: tiebreak.Board
) -> None:
    assert shell.code("claim", "alice", "a.py", *ttl) == 0
    [held] = board.holds.list()
    assert held.until
    assert held.taken_at
    assert round(held.until - held.taken_at, 3) == lease


def test_claiming_again_keeps_the_lease_and_is_no_new_grant(shell: Shell, board: tiebreak.Board) -> None:
    assert [shell.json("claim", "alice", "a.py")["epoch"] for _ in range(2)] == [1, 1]
    assert [shell.json("work-claim", "alice", "t", "--ttl", ttl)["epoch"] for ttl in ("1", "99")] == [1, 1]
    task = board.tasks.get(ref="t")
    assert task.until
    assert task.attempts == 1
    assert round(task.until - task.updated_at) == 99 * 60


def test_one_spelling_of_a_path_does_not_get_around_another(shell: Shell) -> None:
    assert shell.code("claim", "alice", "src/a.py") == 0
    assert shell.code("claim", "bob", "./src/../src/a.py") == 1
    assert shell.code("claim", "bob", str(shell.tb.folder / "src/a.py")) == 1


def test_a_name_in_a_session_is_not_the_plain_name(shell: Shell, board: tiebreak.Board) -> None:
    board.holds.take(resources=[f"file:{str(shell.tb.folder / 'a.py').lstrip('/')}"], agent="alice~elsewhere")
    assert shell.code("claim", "alice", "a.py") == 1
    assert shell.code("release", "alice", "a.py") == 1


# ── Work ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ttl", "lease"), [([], 3600), (["--ttl", "60"], 3600), (["--ttl", "90s"], 90)])
def test_work_is_claimed_for_an_hour_unless_told_otherwise(
    ttl: list[str], lease: int, shell: Shell, board: tiebreak.Board
) -> None:
    assert shell.code("work-claim", "alice", "t", *ttl) == 0
    task = board.tasks.get(ref="t")
    assert task.until
    assert task.claimed_at
    assert round(task.until - task.claimed_at, 3) == lease


def test_abandoned_work_can_be_claimed_again_at_once(shell: Shell, board: tiebreak.Board) -> None:
    shell("work-claim", "alice", "t")
    assert shell.code("work-abandon", "bob", "t") == 1
    assert shell.code("work-abandon", "alice", "t", "--reason", "too hard") == 0
    assert "too hard" in [event.note for event in board.events.read(event="task.released")]
    assert shell.json("work-claim", "bob", "t")["epoch"] == 2
    assert shell.code("work-abandon", "alice", "t") == 1


def test_a_stale_holder_does_not_complete_what_somebody_else_claimed(anywhere: Shell) -> None:
    anywhere.lapse("work-claim", "alice", "t")
    assert anywhere.json("work-claim", "bob", "t")["epoch"] == 2
    for write in ("work-complete", "work-abandon"):
        assert anywhere.code(write, "alice", "t") == 1
    [task] = anywhere.json("work-list")
    assert (task["state"], task["holder"], task["epoch"]) == ("claimed", "bob", 2)


def test_nothing_is_completed_or_released_after_its_lapse_was_written(shell: Shell, board: tiebreak.Board) -> None:
    shell.lapse("work-claim", "alice", "t")
    board.tasks.sweep()
    assert "nothing was written" in complaint(shell("work-complete", "alice", "t"), 1)
    shell.lapse("claim", "alice", "a.py")
    shell.json("claim", "bob", "a.py")
    assert shell.code("release", "alice", "a.py") == 1
    assert [task["state"] for task in shell.json("work-list")] == ["pending"]


def test_the_epoch_fences_two_sessions_of_one_name(shell: Shell) -> None:
    old = shell.lapse("work-claim", "alice", "t")
    new = shell.json("work-claim", "alice", "t")["epoch"]
    for write in ("work-complete", "work-abandon"):
        assert shell.code(write, "alice", "t", "--epoch", str(old)) == 1
    assert shell.code("work-complete", "alice", "t", "--epoch", str(new)) == 0
    old = shell.lapse("claim", "alice", "a.py")
    new = shell.json("claim", "alice", "a.py")["epoch"]
    assert shell.code("release", "alice", "a.py", "--epoch", str(old)) == 1
    assert shell.code("release", "alice", "a.py", "--epoch", str(new)) == 0


def test_work_does_not_fail_because_its_holders_die(shell: Shell) -> None:
    epochs = [shell.lapse("work-claim", f"agent-{i}", "t") for i in range(5)]
    assert epochs == [1, 2, 3, 4, 5]
    assert shell.code("work-claim", "survivor", "t") == 0


def test_completed_work_is_not_won_again(shell: Shell) -> None:
    shell("work-claim", "alice", "t")
    shell("work-complete", "alice", "t")
    for words in (
        ["work-claim", "alice"],
        ["work-claim", "bob"],
        ["work-complete", "alice"],
        ["work-abandon", "alice"],
    ):
        assert shell.code(*words, "t") == 1
    assert [task["state"] for task in shell.json("work-list")] == ["completed"]


def test_work_that_was_posted_otherwise_can_be_claimed_too(shell: Shell, board: tiebreak.Board) -> None:
    task = board.tasks.post(name="without a key")
    assert shell.code("work-claim", "alice", f"#{task.number}") == 0
    assert shell.code("work-complete", "alice", task.id) == 0
    assert len(board.tasks.list()) == 1


def test_a_claim_that_is_refused_for_its_form_leaves_nothing_behind(shell: Shell, board: tiebreak.Board) -> None:
    for words in (["t", "--ttl", "0"], ["t", "--ttl", "1y"], ["two words"]):
        assert shell.code("work-claim", "alice", *words) == 2
    assert board.tasks.list() == []


def test_work_is_listed_by_who_has_it_and_by_whether_it_is_free(shell: Shell, board: tiebreak.Board) -> None:
    board.tasks.post(name="free", key="free")
    board.tasks.post(name="told", key="told", kind="knowledge")
    shell("work-claim", "alice", "hers")
    shell("work-claim", "bob", "his")

    def listed(*words: str) -> list[str]:
        return [task["key"] for task in shell.json("work-list", *words)]

    assert listed() == ["his", "hers", "free"]
    assert listed("--available") == ["free"]
    assert listed("--claimed") == ["his", "hers"]
    assert listed("--claimed", "--agent", "alice") == listed("alice") == ["hers"]
    assert shell("work-list").out.splitlines()[-1] == "free [available]"


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


def bodies(shell: Shell, *words: str) -> list[str]:
    return [message["body"] for message in shell.json("inbox", *words)]


def test_a_message_reaches_whom_it_is_for_and_nobody_else(shell: Shell) -> None:
    shell("send", "alice", "for all")
    shell("send", "alice", "for bob", "--to", "bob")
    shell("send", "alice", "for bob again", "--recipient", "bob")
    assert bodies(shell, "bob") == ["for all", "for bob", "for bob again"]
    assert bodies(shell, "bob") == ["for all", "for bob", "for bob again"], "reading marks nothing"
    assert bodies(shell, "carol") == ["for all"]
    assert "carol" in shell("inbox", "carol", "--channel", "empty").out


def test_an_inbox_can_be_narrowed_to_a_channel_and_to_what_is_new(shell: Shell) -> None:
    shell("send", "alice", "one", "--channel", "discoveries")
    second = shell.json("send", "alice", "two")
    shell("send", "alice", "three")
    assert bodies(shell, "bob", "--channel", "discoveries") == ["one"]
    assert bodies(shell, "bob", "--since", str(second["number"])) == ["three"]
    assert bodies(shell, "bob", "--since", second["sent_at"]) == ["three"]
    assert bodies(shell, "bob", "--since", "2020-01-01T00:00:00Z") == ["one", "two", "three"]


def test_a_thousand_old_messages_do_not_hide_the_newest(shell: Shell, board: tiebreak.Board) -> None:
    board.batch([("messages.send", {"body": f"message {i}"}) for i in range(1001)])
    shell("send", "alice", "the newest")
    assert bodies(shell, "bob")[-1] == "the newest"


def test_what_was_said_before_an_agent_came_or_read_elsewhere_is_still_there(shell: Shell) -> None:
    shell("send", "alice", "before he came")
    shell("announce", "bob")
    shell("send", "alice", "after he came")
    shell.tb.ok("inbox", "--as", "bob")
    assert bodies(shell, "bob") == ["before he came", "after he came"]


def test_an_announcement_is_seen_among_the_agents_and_by_whoever_reads(shell: Shell) -> None:
    assert shell.code("announce", "alice", "Starting", "on X") == 0
    assert shell.code("announce", "carol") == 0
    assert {each["id"]: each["doing"] for each in shell.json("status")["agents"]} == {
        "alice": "Starting on X",
        "carol": None,
    }
    assert bodies(shell, "bob", "--channel", "announce") == ["Starting on X", "carol is active"]


def test_the_text_of_others_cannot_act_on_the_terminal(shell: Shell) -> None:
    shell("send", "alice", "first\x1b[2J\nsecond")
    said = shell("inbox", "bob").out
    assert "\x1b" not in said
    assert "first\\x1b[2J\n    second" in said


# ── The command line ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense", "alice"],
        ["claim"],
        ["claim", "alice"],
        ["claim", "alice", "a.py", "b.py"],
        ["claim", "al ice", "a.py"],
        ["claim", "alice", "a.py", "--channel", "x"],
        ["announce", "alice", "--ttl", "5"],
        ["work-claim", "alice", "t", "--ttl", "soon"],
        ["work-complete", "alice", "t", "--epoch", "first"],
        ["inbox", "alice", "--since", "yesterday"],
        ["work-list", "--available", "--claimed"],
        ["status", "--as", "bob"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(words: list[str], shell: Shell) -> None:
    complaint(shell(*words), 2)


def test_unknown_work_and_files_exit_with_1(shell: Shell) -> None:
    for words in (["release", "alice", "a.py"], ["work-complete", "alice", "t"], ["work-abandon", "alice", "t"]):
        complaint(shell(*words), 1)


def test_every_subcommand_answers_people_and_programs(shell: Shell) -> None:
    words = {
        "announce": ["alice"],
        "claim": ["alice", "a.py"],
        "release": ["alice", "a.py"],
        "send": ["alice", "hello"],
        "inbox": ["bob"],
        "work-claim": ["alice", "t"],
        "work-abandon": ["alice", "t"],
        "work-complete": ["alice", "t"],
        "work-list": [],
        "status": [],
    }
    assert set(words) == set(GROUP.subcommands)
    for form in ([], ["--json"]):
        for name, rest in words.items():
            about = [f"{word}{len(form)}" for word in rest]
            if name == "work-complete":
                assert shell.code("work-claim", *about) == 0
            answer = shell(name, *about, *form)
            assert (answer.code, answer.err) == (0, ""), name
            assert answer.out.strip()
            assert not form or isinstance(json.loads(answer.out), (dict, list))


def test_the_help_leaves_no_subcommand_and_no_option_out() -> None:
    usage = {line.split()[0]: line for line in (coordination.__doc__ or "").splitlines()[1:] if line.strip()}
    assert set(usage) == set(GROUP.subcommands)
    for name, declared in GROUP.subcommands.items():
        told = {f"--{option.name}" for option in declared.options if f"--{option.name}" in usage[name]}
        untold = {"--recipient"} if name == "send" else {"--agent"} if name == "work-list" else set()
        assert told | untold == {f"--{option.name}" for option in declared.options}
        assert declared.text.endswith(".")
        assert declared.run.__doc__


# ── Names that are numbers, slips, and agents to come ────────────────────────────────────────────────


def test_work_that_is_called_by_a_number_is_not_the_task_with_that_number(shell: Shell) -> None:
    other = shell.json("work-claim", "alice", "something-else")

    work = shell.json("work-claim", "bob", str(other["number"]))

    assert (work["key"], work["number"] != other["number"]) == (str(other["number"]), True)
    assert shell.code("work-complete", "bob", str(other["number"])) == 0
    assert shell.code("work-complete", "alice", "something-else") == 0


def test_gptme_expects_no_question_about_a_slip_or_a_recipient(shell: Shell) -> None:
    assert shell.code("work-claim", "alice", "login-bug") == 0
    assert shell.code("work-claim", "bob", "logn-bug") == 0
    assert shell.code("send", "alice", "hello", "--to", "nobody-yet") == 0

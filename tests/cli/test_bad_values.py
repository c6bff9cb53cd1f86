"""Bad values: each is refused in one line with the right code, and the board stays as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tiebreak
from tiebreak import errors, limits

from .command import Answer, Tb, complaint
from .conftest import Rows

Cli = Callable[..., Answer]
Refuse = Callable[..., str]


@pytest.fixture
def refuse(cli: Cli, board: tiebreak.Board, rows: Callable[[], Rows]) -> Refuse:
    """Run a command that has to be refused without a trace on the board; what it says."""
    board.tasks.post(name="here", key="here")
    board.tasks.claim(ref="mine")
    before = rows()

    def call(*words: str, code: int = 2, stdin: str = "") -> str:
        said = complaint(cli(*words, stdin=stdin), code)
        assert rows() == before
        return said

    return call


WHERE = {
    "name": ["post", "{}"],
    "kind": ["post", "x", "--kind", "{}"],
    "queue": ["post", "x", "--queue", "{}"],
    "tag": ["post", "x", "--tag", "{}"],
    "key": ["post", "x", "--key", "{}"],
    "ref": ["claim", "{}"],
    "agent": ["post", "x", "--as", "{}"],
    "project": ["post", "x", "--project", "{}"],
    "resource": ["hold", "lock:{}"],
    "path": ["hold", "{}"],
    "note": ["hold", "lock:x", "--note", "{}"],
    "reason": ["cancel", "here", "--reason", "{}"],
    "channel": ["send", "bob", "hello", "--channel", "{}"],
    "recipient": ["send", "{}", "hello"],
    "doing": ["announce", "{}"],
    "program": ["announce", "--program", "{}"],
    "filter": ["tasks", "--name-contains", "{}"],
}
LIMITS = {
    "name": limits.MAX_NAME,
    "kind": limits.MAX_LABEL,
    "queue": limits.MAX_LABEL,
    "tag": limits.MAX_LABEL,
    "key": limits.MAX_KEY,
    "ref": limits.MAX_KEY,
    "agent": limits.MAX_LABEL,
    "project": limits.MAX_LABEL,
    "resource": limits.MAX_LABEL,
    "path": limits.MAX_PATH_OF_FILE,
    "note": limits.MAX_NOTE,
    "reason": limits.MAX_NOTE,
    "channel": limits.MAX_LABEL,
    "recipient": limits.MAX_LABEL,
    "doing": limits.MAX_NOTE,
    "program": limits.MAX_NAME,
    "filter": limits.MAX_NAME,
}


def filled(place: str, value: str) -> list[str]:
    return [word.replace("{}", value) for word in WHERE[place]]


@pytest.mark.parametrize("place", WHERE)
def test_too_long(place: str, refuse: Refuse) -> None:
    said = refuse(*filled(place, "x" * (LIMITS[place] + 1)))
    assert str(LIMITS[place]) in said
    assert len(said) < 400, "the value itself is not repeated at length"


def test_a_message_that_is_too_long(refuse: Refuse) -> None:
    assert str(limits.MAX_TEXT) in refuse("send", "bob", "-", stdin="x" * (limits.MAX_TEXT + 1))


@pytest.mark.parametrize("place", [place for place in WHERE if place not in ("doing", "agent", "project")])
def test_empty(place: str, refuse: Refuse) -> None:
    refuse(*filled(place, ""))


@pytest.mark.parametrize("place", [place for place in WHERE if place != "path"])
def test_blank(place: str, refuse: Refuse) -> None:
    refuse(*filled(place, " "))


HARMFUL = {
    "newline": "a\nb",
    "tab": "a\tb",
    "bell": "a\x07b",
    "delete": "a\x7fb",
    "escape sequence": "a\x1b[2Jb",
    "escape sequence of 8 bits": "a\x9b2Jb",
    "title of the window": "a\x1b]0;owned\x07b",
    "right to left": "a\u202eb",
    "line separator": "a\u2028b",
    "lone surrogate": "a\ud800b",
    "undecodable byte": "a\udcffb",
}


@pytest.mark.parametrize("value", HARMFUL.values(), ids=HARMFUL)
@pytest.mark.parametrize("place", ["name", "key", "ref", "agent", "project", "resource", "note", "kind", "path"])
def test_characters_that_act_on_a_terminal(place: str, value: str, refuse: Refuse) -> None:
    said = refuse(*filled(place, value))
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "words", [["post", "{}"], ["show", "{}"], ["{}"], ["send", "bob", "{}"], ["--as", "{}", "post", "x"]]
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["human", "json"])
def test_bytes_that_are_not_text_on_the_real_command_line(words: list[str], form: list[str], tb: Tb) -> None:
    raw = [os.fsencode(word).replace(b"{}", b"a\xffb") for word in [*form, *words]]
    answer = tb(*raw)
    assert answer.code == 2, answer
    if form:
        assert answer.json["error"] == "Invalid"
    else:
        complaint(answer, 2)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["human", "json"])
def test_a_board_whose_path_is_not_text(form: list[str], tb: Tb) -> None:
    answer = tb(*form, "--board", b"/nowhere/a\xffb.db", "status")
    assert answer.code == 3
    assert "Traceback" not in answer.err
    assert answer.out.isascii(), "bytes that are not text must not reach a JSON parser"


@pytest.mark.parametrize("command", [["post", "x", "--payload", "-"], ["send", "bob", "-"], ["batch"]])
def test_bytes_that_are_not_text_on_standard_input(command: list[str], tb: Tb) -> None:
    answer = tb(*command, stdin=b'"a\xffb"')
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert tb.json("events") == []


@pytest.mark.parametrize("value", ["a\0b", "\0", "a\x1bb", "a\ud800b", "", "x" * 801, 7, None, ["x"], {"a": 1}, True])
def test_no_way_in_from_python_either(value: object, board: tiebreak.Board, rows: Callable[[], Rows]) -> None:
    before = rows()
    with pytest.raises(errors.Invalid):
        board.call("tasks.post", {"name": value})
    assert rows() == before


JSON = {
    "cut off": '{"a": ',
    "nothing": "",
    "two values": "1 2",
    "not a number": "NaN",
    "infinite": "[1e999]",
    "python": "{'a': 1}",
    "lone surrogate": '"\\ud800"',
    "10,000 levels": "[" * 10_000 + "]" * 10_000,
    "an endless number": "9" * 5000,
}


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
@pytest.mark.parametrize("way", ["word", "file", "standard input"])
def test_what_is_not_json(text: str, way: str, refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text(text)
    word = {"word": text, "file": "@payload.json", "standard input": "-"}[way]
    refuse("post", "x", "--payload", word, stdin=text)
    refuse("complete", "mine", "--result", word, stdin=text)


def test_a_payload_that_is_too_large(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text(f'"{"x" * limits.MAX_JSON}"')
    assert str(limits.MAX_JSON) in refuse("post", "x", "--payload", "@payload.json")


def test_a_wrong_value_is_named_as_it_was_typed(refuse: Refuse) -> None:
    assert "tb: --max-attempts: must be between" in refuse("post", "x", "--max-attempts", "0")
    assert "tb: --state: one of" in refuse("tasks", "--state", "odd")
    assert "--slot" in refuse("drop", "pool:x", "--slot", "-1")


def test_a_wrong_value_is_not_named_after_an_option_with_a_similar_name(refuse: Refuse) -> None:
    assert "--limit" not in refuse("submit", "true", "--limit", "db=2", "--files", "0")


@pytest.mark.parametrize("file", ["missing.json", "", ".", "board.db"])
def test_a_payload_from_a_file_that_cannot_be_read(file: str, refuse: Refuse) -> None:
    refuse("post", "x", "--payload", f"@{file}")


UNKNOWN = {
    "number": ["show", "#99"],
    "key": ["show", "nowhere"],
    "id": ["show", "00000000-0000-7000-8000-000000000000"],
    "beginning of an id": ["show", "ffff"],
    "not created": ["claim", "nowhere", "--no-create"],
    "claimed by number": ["claim", "#99"],
    "about": ["post", "x", "--about", "nowhere"],
    "after": ["post", "x", "--after", "nowhere"],
    "depend": ["depend", "here", "--after", "nowhere"],
    "wait": ["wait", "nowhere"],
    "why": ["why", "nowhere"],
    "why a lock": ["why", "lock:nowhere"],
    "message": ["ack", "99"],
    "reply": ["send", "bob", "hello", "--later", "--reply-to", "99"],
    "pool": ["hold", "pool:nowhere"],
    "agent": ["leave", "--as", "nobody"],
}


@pytest.mark.parametrize("words", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_there(words: list[str], refuse: Refuse) -> None:
    refuse(*words, code=1)


@pytest.mark.parametrize("ref", ["#", "#x", "#-1", "#1.5", "#99999999999999999999", "#0x1"])
def test_what_cannot_be_a_number(ref: str, refuse: Refuse) -> None:
    refuse("show", ref)
    refuse("claim", ref)


def test_a_beginning_that_two_ids_share(refuse: Refuse, board: tiebreak.Board) -> None:
    """Ids begin with the time, so two tasks of one minute share their beginning."""
    said = refuse("claim", board.tasks.get(ref="here").id[:6])
    assert "more than one" in said
    assert "#number" in said


DURATIONS = ["-5m", "nan", "1x", "inf", "5mm", "m", "", "1e3", "--5", "99999999999w", "9" * 400, "1.2.3s", "٣x"]


@pytest.mark.parametrize("value", DURATIONS)
def test_what_is_not_a_duration(value: str, refuse: Refuse) -> None:
    for words in (
        ["claim", "here", "--lease"],
        ["claim", "here", "--wait"],
        ["hold", "lock:x", "--lease"],
        ["next", "--wait"],
        ["wait", "--timeout"],
        ["post", "x", "--delay"],
        ["post", "x", "--backoff"],
        ["prune", "--older-than"],
    ):
        refuse(*words, value)


def test_a_bad_grace_is_noticed_before_anything_is_held(refuse: Refuse) -> None:
    refuse("run", "--hold", "lock:x", "--grace", "1x", "--", "true")


@pytest.mark.parametrize("value", ["0", "0s", "8d"])
def test_a_lease_that_is_none_or_too_long(value: str, refuse: Refuse) -> None:
    refuse("claim", "here", "--lease", value)


@pytest.mark.parametrize("value", ["0", "-1", "--1", "1.5", "x", "", "100000", "9" * 5000, "²"])
def test_what_is_not_a_count(value: str, refuse: Refuse) -> None:
    for words in (
        ["next", "--count"],
        ["tasks", "--limit"],
        ["events", "--limit"],
        ["inbox", "--limit"],
        ["why", "here", "--limit"],
        ["hold", "pool:x", "--slots"],
        ["post", "x", "--max-attempts"],
    ):
        refuse(*words, value)


@pytest.mark.parametrize("value", ["-1", "--1", "x", "", "9" * 5000])
def test_what_is_not_a_number(value: str, refuse: Refuse) -> None:
    for words in (
        ["complete", "mine", "--epoch"],
        ["drop", "lock:x", "--slot"],
        ["events", "--after"],
        ["tasks", "--before"],
        ["ack", "--"],
    ):
        refuse(*words, value)


@pytest.mark.parametrize(
    "words",
    [
        ["post", "x", "--priority", "asap"],
        ["send", "bob", "x", "--importance", "asap"],
        ["tasks", "--priority", "asap"],
        ["tasks", "--state", "sleeping"],
        ["wait", "--state", "sleeping"],
        ["wait", "--priority", "asap"],
        ["agents", "--status", "asleep"],
    ],
)
def test_an_unknown_word_is_told_the_known_ones(words: list[str], refuse: Refuse) -> None:
    assert "one of " in refuse(*words)


def test_a_shell_that_has_no_completion(cli: Cli) -> None:
    assert "one of " in complaint(cli("completion", "tcsh"), 2)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a way out of it."""
    here = tmp_path / "repo"
    (here / ".git").mkdir(parents=True)
    (here / "src").mkdir()
    (here / "out").symlink_to("/etc")
    (here / "src" / "up").symlink_to("../..")
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "out/passwd", "src/up/x", "src/../../x", "../repo-evil/x", "out/*", "src/*/../x", "."],
)
def test_a_path_that_leads_out_of_the_repository(path: str, refuse: Refuse, repository: Path) -> None:
    refuse("hold", path)
    refuse("hold", f"file:{path}")
    refuse("hold", "src/a.py", path)


def test_a_path_in_the_repository_is_one_from_anywhere(
    cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("hold", "src/a.py")
    monkeypatch.chdir(repository / "src")
    assert cli("holds", "--json", "--matching", "a.py").json[0]["resource"] == "file:src/a.py"
    complaint(cli("hold", "./../src/a.py", "--as", "bob"), 1)


@pytest.mark.parametrize("typo", ["lokc:deploy", "seats:coordinator"])
def test_a_mistyped_kind_of_resource_is_not_taken_for_a_file(typo: str, refuse: Refuse, repository: Path) -> None:
    """Whoever believes to have the lock would have nothing."""
    refuse("hold", typo)


def test_a_folder_that_is_gone(tb: Tb) -> None:
    answer = tb.sh("mkdir gone; cd gone; rmdir ../gone; tb post x")
    assert "Traceback" not in answer.err
    answer = tb.sh("unset TIEBREAK_PROJECT; mkdir gone; cd gone; rmdir ../gone; tb post x")
    assert "Traceback" not in answer.err
    assert len(answer.err.splitlines()) <= 2


@pytest.mark.parametrize("command", ["send bob -", "post x --payload -", "batch"])
def test_standard_input_that_is_closed(command: str, tb: Tb) -> None:
    answer = tb.sh(f"tb {command} <&-")
    assert "Traceback" not in answer.err
    assert answer.code == 2 or command == "batch"

"""Options: where they may stand, what wins, and what a wrong one is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tiebreak

from .command import Answer, Tb, complaint

Cli = Callable[..., Answer]


@pytest.mark.parametrize("option", [("--as", "alice"), ("--project", "other"), ("--board", "other.db")])
@pytest.mark.parametrize("spelling", ["two words", "one word"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_an_option_is_not_lost_wherever_it_stands(option: tuple[str, str], spelling: str, place: str, cli: Cli) -> None:
    words = list(option) if spelling == "two words" else ["=".join(option)]
    answer = cli(*words, "whoami", "--json") if place == "before" else cli("--json", "whoami", *words)
    facts = answer.json
    key = {"--as": "agent"}.get(option[0], option[0][2:])
    assert facts[key].endswith(option[1])


def test_of_a_repeated_option_the_last_value_counts(cli: Cli) -> None:
    assert cli("--as", "alice", "whoami", "--json", "--as", "bob").json["agent"] == "bob"


@pytest.mark.parametrize(
    ("variable", "key", "option"),
    [("TIEBREAK_AGENT", "agent", "--as"), ("TIEBREAK_PROJECT", "project", "--project")],
)
def test_an_option_wins_over_the_environment(
    variable: str, key: str, option: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "from-environment")
    assert cli("whoami", "--json").json[key] == "from-environment"
    assert cli("whoami", "--json", option, "from-option").json[key] == "from-option"


def test_a_board_in_an_option_wins_over_the_environment(cli: Cli, tmp_path: Path) -> None:
    assert cli("whoami", "--json").json["board"] == str(tmp_path / "board.db")
    assert cli("whoami", "--json", "--board", f"sqlite:///{tmp_path}/b.db").json["board"] == str(tmp_path / "b.db")


def test_without_a_variable_the_board_is_the_users_own(tb: Tb) -> None:
    facts = tb.json("whoami", env={"TIEBREAK_BOARD": None})
    assert facts["board"] == str(tb.folder / "state" / "tiebreak" / "board.db")
    facts = tb.json("whoami", env={"TIEBREAK_BOARD": None, "XDG_STATE_HOME": None})
    assert facts["board"] == str(tb.folder / ".local" / "state" / "tiebreak" / "board.db")


def test_without_a_variable_the_project_is_the_repository(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TIEBREAK_PROJECT")
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "src").mkdir()
    monkeypatch.chdir(tmp_path / "shop" / "src")
    assert cli("whoami", "--json").json["project"].startswith("local/shop-")


def test_projects_do_not_see_each_other(cli: Cli) -> None:
    cli("post", "here")
    assert cli("tasks", "--json", "--project", "elsewhere").json == []
    assert len(cli("tasks", "--json", "--project", "elsewhere", "--every-project").json) == 1


@pytest.mark.parametrize("option", ["--as", "--project", "--board"])
def test_an_empty_option_is_refused_and_not_taken_for_a_missing_one(option: str, cli: Cli, tmp_path: Path) -> None:
    """A shell variable that is not set must not let somebody act under another name or elsewhere."""
    said = complaint(cli("post", "x", option, ""), 3 if option == "--board" else 2)
    assert said
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("words", "help"),
    [
        (["clam", "x"], "tb claim"),
        (["tsaks"], "tb tasks"),
        (["qqqqqq"], "tb help"),
        (["claim", "x", "--laese", "5m"], "--lease"),
        (["--bord", "x", "claim"], "--board"),
        (["claim", "x", "--qqqqqq"], "--help"),
        (["claim", "x", "-q"], "tb help claim"),
        (["claim"], "usage: tb claim REF"),
        (["send", "bob"], "usage: tb send TO TEXT"),
        (["claim", "a", "b"], "usage: tb claim REF"),
        (["run", "--hold", "lock:x"], "usage: tb run"),
        (["run", "--", "true"], "usage: tb run"),
        (["run", "--hold", "lock:x", "true"], "usage: tb run"),
        (["help", "clam"], "tb claim"),
        (["claim", "x", "--lease"], "DURATION"),
        (["claim", "x", "--json=yes"], "takes no value"),
        (["break", "lock:x"], "--reason"),
        (["transfer", "lock:x"], "--to"),
        (["depend", "x"], "--after"),
    ],
)
def test_a_wrong_word_is_told_the_right_one(words: list[str], help: str, cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.post(name="x", key="x")
    assert help in complaint(cli(*words), 2)


def test_a_wrong_option_is_told_which_value_it_wants_by_its_name(cli: Cli) -> None:
    """Two durations in one command: the message has to say which one is wrong."""
    assert "wait" in complaint(cli("claim", "x", "--wait", "1x"), 2)
    assert "timeout" in complaint(cli("wait", "--timeout", "1x"), 2)
    assert "limit" in complaint(cli("tasks", "--limit", "many"), 2)


@pytest.mark.parametrize("name", ["-x", "--as", "--", "-", "--help", "-5"])
def test_after_two_dashes_everything_is_a_word(name: str, cli: Cli) -> None:
    assert cli("post", "--json", "--", name).json["name"] == name


def test_a_task_may_be_called_like_an_option(cli: Cli) -> None:
    cli("claim", "--", "--key")
    assert cli("show", "--json", "--", "--key").json["state"] == "claimed"
    assert cli("complete", "--json", "--", "--key").json["state"] == "completed"


def test_a_message_may_begin_with_a_dash(cli: Cli) -> None:
    assert cli("send", "--json", "all", "--", "-v", "is verbose").json["body"] == "-v is verbose"


def test_the_words_of_a_command_to_run_are_left_alone(tb: Tb) -> None:
    assert tb.ok("run", "--hold", "lock:x", "--", "echo", "--as", "--", "--json", "-h") == "--as -- --json -h\n"


def test_a_word_after_two_dashes_does_not_turn_errors_into_json(cli: Cli) -> None:
    complaint(cli("show", "--", "--json"), 1)


@pytest.mark.parametrize("address", ["mysql://x/y", "ftp://localhost:1/", "nonsense://x"])
def test_an_unknown_kind_of_board_is_named(address: str, cli: Cli) -> None:
    assert address.partition(":")[0] in complaint(cli("--board", address, "status"), 2)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TIEBREAK_AGENT", "two words"), ("TIEBREAK_PROJECT", "two words"), ("TIEBREAK_SESSION", "two words")],
)
def test_a_wrong_variable_is_named(variable: str, value: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    said = complaint(cli("post", "x"), 2)
    assert variable.partition("_")[2].lower() in said.lower()


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_is_that_of_the_package(words: list[str], cli: Cli) -> None:
    assert f"tiebreak {tiebreak.__version__} " in cli(*words).out

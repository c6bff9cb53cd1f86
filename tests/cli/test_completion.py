"""Completion in real shells: what they offer, and that what they insert arrives as the word it stands for."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

import tiebreak
from tiebreak.cli.completion_quoting import quoted, split_line
from tiebreak.program import names

from .command import TB, Answer, Tb, complaint
from .shells import Shell, interactive

SHELLS = ("bash", "zsh", "fish")
GLOBAL = ["--as", "--board", "--help", "--json", "--project"]
PRIORITIES = ["high", "low", "normal", "urgent"]
STATES = ["blocked", "cancelled", "claimed", "completed", "failed", "pending"]
ACTS = "x$(touch${IFS}evil)`touch${IFS}evil`"
TASKS = [
    "#1",
    "it's",
    'say"hi"',
    "ns:one",
    "ns:two",
    ACTS,
    "back\\slash",
    "bang!x",
    "élan",
    "semi;colon",
    "gl*b",
    "end'",
    "key:5",
]
HOLDS = ["lock:deploy", "my file.txt"]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Tb:
    """A folder with files, and a board with something of every kind, some of it hostile. Tests only read it."""
    tb = Tb(tmp_path_factory.mktemp("completion"))
    subprocess.run(["git", "init", "--quiet", str(tb.folder)], check=True)
    for name in ("source code.py", "own/kept.py"):
        (tb.folder / name).parent.mkdir(exist_ok=True)
        (tb.folder / name).touch()
    (tb.folder / "own/tb").symlink_to(TB)
    with tiebreak.open(tb.path, agent="me~1", project="demo") as board:
        board.tasks.post("without a key", queue="mail", kind="bug", tags=["slow"])
        for key in TASKS[1:]:
            board.tasks.post("it's: \\what %is% $done", key=key.removeprefix("key:"))
        board.tasks.post("an option", key="--option")
        board.call("holds.take", {"resources": ["lock:deploy", "file:my file.txt"], "agent": "brave-otter~1"})
        board.call("tasks.post", {"name": "x", "key": "elsewhere", "project": "other"})
    return tb


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, furnished: Tb) -> Iterator[Shell]:
    """A running shell, shared by the tests."""
    with interactive(request.param, furnished) as running:
        yield running


def test_a_shell_offers_what_may_stand_at_the_cursor(shell: Shell) -> None:
    expected = {
        "tb cl": ["claim"],
        "tb --board board.db cl": ["claim"],
        "tb --bo": ["--board"],
        "~/own/tb cl": ["claim"],
        "tiebreak cl": ["claim"],
        "tb claim --le": ["--lease"],
        "tb claim --as somebody --no-c": ["--no-create"],
        "tb help set": ["setup"],
        "tb help claim ": sorted([*GLOBAL, "--man"]),
        "tb show claim --": GLOBAL,
        "tb completion ": sorted(SHELLS),
        "tb queue pa": ["pause"],
    }
    assert {typed: sorted(shell.offered(typed)) for typed in expected} == expected


def test_a_shell_offers_every_command(shell: Shell) -> None:
    assert sorted(shell.offered("tb ")) == sorted(names())


def test_a_shell_offers_the_values_of_options_and_arguments(shell: Shell) -> None:
    expected = {
        "tb post x --priority ": PRIORITIES,
        "tb tasks --state ": STATES,
        "tb tasks --state=pe": ["--state=pending"],
        "tb --as br": ["brave-otter"],
        "tb holds --agent ": ["brave-otter", "me"],
        "tb --project ": ["demo", "other"],
        "tb next --queue ": ["default", "mail"],
        "tb claim x --lease ": [],
    }
    assert {typed: sorted(shell.offered(typed)) for typed in expected} == expected


def test_a_shell_offers_the_tasks_and_holds_of_the_project_that_was_typed(shell: Shell) -> None:
    expected = {
        "tb claim ": sorted(TASKS),
        "tb --project other claim ": ["elsewhere"],
        "tb claim --project=other ": ["elsewhere"],
        "tb submit x --after it": ["it's"],
        "tb drop ": HOLDS,
        "tb break loc": ["lock:deploy"],
    }
    assert {typed: sorted(shell.offered(typed)) for typed in expected} == expected


def test_a_word_with_special_characters_arrives_as_it_was_written(shell: Shell, furnished: Tb) -> None:
    """Whatever an agent called it: nothing of it is run, and quotes that were typed before it are kept."""
    expected = {
        "it": "it's",
        '"it': "it's",
        "'it": "it's",
        'i"t"': "it's",
        "sa": 'say"hi"',
        '"sa': 'say"hi"',
        "'sa": 'say"hi"',
        "ns:o": "ns:one",
        "ns\\:t": "ns:two",
        "x": ACTS,
        '"x': ACTS,
        "'x": ACTS,
        "back": "back\\slash",
        "bang": "bang!x",
        "gl": "gl*b",
        "end": "end'",
        "'end": "end'",
        "\\#": "#1",
        "key:": "key:5",
        "é": "élan",
    }
    assert {typed: shell.pressing_tab(f"tb claim {typed}")[2:] for typed in expected} == {
        typed: [word] for typed, word in expected.items()
    }
    assert not (furnished.folder / "evil").exists()


def test_a_shell_offers_files_only_where_files_are_meant(shell: Shell) -> None:
    expected = {
        "tb drop my": "my file.txt",
        'tb drop "my': "my file.txt",
        "tb drop lock:": "lock:deploy",
        "tb hold sou": "source code.py",
        "tb hold 'sou": "source code.py",
        "tb hold own/k": "own/kept.py",
        "tb run --hold lock:x -- own/t": "own/tb",
        "tb claim sou": "sou",
    }
    assert {typed: shell.pressing_tab(typed)[-1] for typed in expected} == expected


def test_a_shell_completes_in_the_middle_of_a_line(shell: Shell) -> None:
    back = "\x1b[D" * len(" --json")
    assert shell.pressing_tab(f"tb claim it --json{back}") == ["tb", "claim", "it's", "--json"]


@pytest.mark.parametrize(
    ("line", "words", "expected"),
    [
        ("tb claim a", ["a*b", "a&b"], ["a'*'b", "a\\&b"]),
        ("tb claim a", ["a'b", "a&b"], ['a"\'"b', "a\\&b"]),
        ('tb claim "a', ["a$b", "a`b"], ["a\"'$'\"b", "a\\`b"]),
        ("tb claim a", ["a*b", "a*c"], ["a\\*b", "a\\*c"]),
        ("tb claim a", ["a\\b", "a\\c"], ["a\\\\b", "a\\\\c"]),
        ('tb claim "b', ["bang!x"], []),
    ],
)
def test_what_several_words_share_never_ends_in_half_a_quote(line: str, words: list[str], expected: list[str]) -> None:
    """Bash inserts what the offered words share; a backslash at its end would quote whatever is typed next."""
    assert quoted(words, split_line(line, ":")) == expected


def test_zsh_can_load_the_script_without_a_completion_system_and_from_a_stored_file(tb: Tb) -> None:
    (tb.folder / "_tb").write_text(tb.ok("completion", "zsh"))
    for start in ('eval "$(tb completion zsh)"', "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D"):
        assert tb.sh(f'{start}; print -r -- "$_comps[tb] $_comps[tiebreak]"', shell="zsh") == (0, "_tb _tb\n", "")


ASK = ("completion", "zsh", "--")
"""What all three scripts ask; these tests need no shell."""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--json ", sorted(names())),
        ("agents --status ", ["active", "gone", "idle", "stale"]),
        ("send ", ["brave-otter", "me"]),
        ("queue pause ", ["default", "mail"]),
        ("queue pause --", sorted(["--reason", *GLOBAL])),
        ("queue resume --", GLOBAL),
        ("next --tags ", ["slow"]),
        ("next --kind ", ["bug", "task"]),
        ("rc ", ["down", "status", "up"]),
        ("guard ", ["check", "clear", "install", "status", "uninstall"]),
        ("rc up ", ["demo", "other"]),
        ("why lock", sorted([*TASKS, *HOLDS])),
        ("post x --wait-for-nothing --priority ", PRIORITIES),
    ],
)
def test_an_argument_or_value_of_every_kind_is_offered(typed: str, expected: list[str], furnished: Tb) -> None:
    lines = furnished.ok(*ASK, *typed.split(" ")).splitlines()
    assert lines[0] == "words"
    assert sorted(line.partition("\t")[0] for line in lines[1:]) == expected


def test_a_held_file_is_offered_as_it_is_called_from_here(furnished: Tb) -> None:
    assert "../my file.txt\theld by brave-otter" in furnished(*ASK, "drop", "", cwd=furnished.folder / "own").out


def test_a_word_comes_with_what_it_means(furnished: Tb) -> None:
    assert "\nclaim\tClaim a task, or learn who has it.\n" in furnished.ok(*ASK, "")
    assert "\n#1\twithout a key\n" in furnished.ok(*ASK, "claim", "")


@pytest.mark.parametrize("words", [["commit", ""], ["backup", "sou"], ["hold", ""], ["run", "--", "x", ""]])
def test_a_place_for_a_file_gets_files(words: list[str], furnished: Tb) -> None:
    assert furnished.ok(*ASK, *words) == "files\n"


@pytest.mark.parametrize("words", [["claim"], ["drop"], ["send"], ["queue", "pause"], ["--project"], ["cron", "rm"]])
def test_no_board_is_made_and_no_error_told_by_a_completion(
    words: list[str], cli: Callable[..., Answer], tb: Tb
) -> None:
    assert cli(*ASK, *words, "") == cli(*ASK, *words, "")
    assert not tb.path.exists()
    tb.path.write_bytes(b"no board at all" * 100)
    answer = cli(*ASK, *words, "")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["-"],
        ["=", "="],
        ["--board"],
        ["--nonsense=", ""],
        ["nonsense", ""],
        ["queue", "nonsense", ""],
        ["claim", "--", "--", ""],
    ],
)
def test_a_wrong_line_gets_no_error(words: list[str], cli: Callable[..., Answer]) -> None:
    answer = cli(*ASK, *words, "")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[0] in ("files", "words")


def test_a_server_that_does_not_answer_does_not_stop_the_shell(tb: Tb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/board"
        began = time.monotonic()
        assert tb(*ASK, "--board", address, "claim", "") == (0, "", "")
    assert time.monotonic() - began < 10


def test_programs_get_the_script_and_the_words_as_json(cli: Callable[..., Answer]) -> None:
    assert "_tb" in cli("completion", "bash", "--json").json["script"]
    assert cli("completion", "fish", "--json", "--", "rc", "").json == {
        "files": False,
        "words": ["up", "down", "status"],
    }


def test_a_completion_of_nothing_is_wrong_usage(tb: Tb) -> None:
    complaint(tb("completion"), 2)

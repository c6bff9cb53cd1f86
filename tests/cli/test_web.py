"""`tb web` and what `tb serve` and `make serve` say: a newcomer gets into the board with a browser, and nobody else."""

from __future__ import annotations

import http.cookiejar
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Serving, free_port, serving
from tiebreak.cli.web import site_of

from .command import PATIENCE, TB, Tb, complaint, until
from .terminals import shown, terminal

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/web/enter\?code=[\w-]{43}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def tb(daemon: Serving) -> Tb:
    return Tb(daemon.folder)


def read(link: str) -> str:
    """The page that a browser lands on."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))
    with browser.open(link, timeout=PATIENCE) as answer:
        assert answer.url.endswith("/"), "the code is not in the address any more"
        return str(answer.read().decode())


def test_a_newcomer_gets_from_the_command_to_the_page(tb: Tb, daemon: Serving) -> None:
    tb.ok("post", "fix the login bug")
    said = tb.ok("web")
    assert daemon.url in said.splitlines()[0], "which daemon it is"
    [link] = LINK.findall(said)
    assert "fix the login bug" in read(link)


def test_a_link_for_acting_says_in_whose_name(tb: Tb) -> None:
    assert tb.json("--as", "maria~1", "web", "--write")["acts_as"] == "maria"
    assert "done as maria" in tb.ok("--as", "maria", "web", "--write")
    assert "acts_as" not in tb.json("--as", "maria", "web")
    assert "--out" in complaint(tb("web", "--write", "--out"), 2)


def test_without_a_named_agent_it_is_the_login_name_that_acts(tb: Tb) -> None:
    alone = {"TIEBREAK_AGENT": None, "LOGNAME": "José Pérez", "USER": "x"}
    said = tb("web", "--write", env=alone).out
    assert "done as Jos--P-rez" in said


@pytest.mark.parametrize("way", ["file", "http", "socket"])
def test_the_link_is_the_same_whichever_way_the_daemon_is_asked(way: str, tb: Tb, daemon: Serving) -> None:
    board = {"file": str(daemon.board), "http": daemon.url, "socket": f"unix:{daemon.socket}"}[way]
    answer = tb.json("--board", board, "web")
    assert answer["link"].startswith(f"{daemon.url}/web/enter?code=")
    assert (answer["opened"], answer["seconds"]) == (False, 60)
    assert "Now" in read(answer["link"])


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("http://127.0.0.1", "http://127.0.0.1:7777"),
        ("http://[::1]:7778/", "http://[::1]:7778"),
        ("https://board.example/", "https://board.example"),
    ],
)
def test_an_address_without_a_port_leads_a_browser_to_the_same_daemon(address: str, site: str) -> None:
    assert site_of(address) == site


def test_whoever_has_no_token_gets_no_link(tb: Tb, daemon: Serving) -> None:
    answer = tb("--board", daemon.url, "web", env={"XDG_STATE_HOME": str(daemon.folder / "theirs")})
    assert "token is missing or wrong" in complaint(answer, 3)


def test_without_a_daemon_the_command_that_starts_one_is_told(tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    tb.ok("post", "x")
    said = complaint(tb("web"), 1)
    assert "no daemon serves it" in said
    assert "`tb serve --detach`" in said


def test_a_daemon_without_an_address_for_browsers_is_told_apart(tmp_path: Path) -> None:
    with serving(tmp_path, "--addr", "none"):
        assert "unix socket alone" in complaint(Tb(tmp_path)("web"), 1)


def test_signing_out_says_how_many(tb: Tb) -> None:
    tb.ok("web", "--out")
    read(tb.json("web")["link"])
    assert tb.ok("web", "--out").startswith("signed 1 browser out of ")
    assert tb.json("web", "--out")["signed_out"] == 0


# ── Opening a browser ────────────────────────────────────────────────────────────────────────────────


def on_a_screen(tb: Tb, folder: Path, *words: str, **changes: str) -> tuple[str, str]:
    """What `tb web` says on a terminal, and what it gave to the browser."""
    given, browser = folder / "given", folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{given}.new && mv {given}.new {given}\n')
    browser.chmod(0o700)
    with_screen = {"BROWSER": f"{browser} %s", "DISPLAY": ":7"}
    said = shown(tb, "web", *words, columns=200, env={**with_screen, **changes})
    if "opened a browser" in said:
        until(given.exists, "the browser has begun")
    return said, given.read_text() if given.exists() else ""


def test_on_a_screen_the_browser_is_opened_with_the_link(tb: Tb, tmp_path: Path) -> None:
    said, given = on_a_screen(tb, tmp_path)
    assert LINK.fullmatch(given)
    assert given in said
    assert "Now" in read(given)


@pytest.mark.parametrize(
    ("words", "changes"),
    [(("--print",), {}), (("--json",), {}), ((), {"SSH_CONNECTION": "10.0.0.5 1 10.0.0.6 22"})],
    ids=["--print", "--json", "SSH"],
)
def test_a_link_that_somebody_else_should_open_is_only_printed(
    words: tuple[str, ...], changes: dict[str, str], tb: Tb, tmp_path: Path
) -> None:
    said, given = on_a_screen(tb, tmp_path, *words, **changes)
    assert given == ""
    assert LINK.search(said)
    assert ("ssh -N -L" in said) == bool(changes), "how a browser elsewhere gets here"


# ── What a daemon says when it serves ────────────────────────────────────────────────────────────────

STEPS = ["tb post 'fix the login bug' --key login-bug", "tb claim login-bug", "tb why login-bug"]


def makefile_copy(folder: Path) -> Path:
    """The real Makefile in a folder of its own, where everything is installed already."""
    copy = folder / "clone"
    (copy / ".venv" / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "requirements", "scripts", "tools"):
        (copy / name).symlink_to(ROOT / name)
    for name in ("python", "tb"):
        (copy / ".venv" / "bin" / name).symlink_to(Path(TB).parent / name)
    (copy / ".venv" / ".runtime").touch()
    return copy


def words_of_make_serve(tb: Tb, folder: Path, port: int, path: str) -> list[str]:
    """The lines that `make serve` puts on a terminal until Ctrl-C is pressed, on which it ends."""
    make = ["make", "--no-print-directory", "-C", str(makefile_copy(folder)), "serve", f"ARGS=--addr 127.0.0.1:{port}"]
    with terminal(columns=200) as screen:
        running = screen.start(tb, *make, env={"PATH": path, "NO_COLOR": "1"})
        try:
            assert screen.read(until=f"{STEPS[-1]}\n".encode()), screen.screen
            said = screen.screen.decode()
            [link] = LINK.findall(said)
            assert "Now" in read(link)
        finally:
            screen.type("\x03")
            assert screen.read(), "it did not end"
            running.wait(PATIENCE)
    return [line.strip() for line in said.splitlines()]


def test_make_serve_says_what_is_served_where_tb_is_and_what_to_do_next(tmp_path: Path) -> None:
    tb, port = Tb(tmp_path), free_port()
    elsewhere = os.pathsep.join(
        each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if not os.path.exists(f"{each}/tb")
    )
    lines = words_of_make_serve(tb, tmp_path, port, elsewhere)
    assert f"serving {tb.path}" in lines
    assert f"http://127.0.0.1:{port}" in lines
    line = next(line for line in lines if line.startswith("export PATH="))
    assert lines[lines.index(line) + 1 :][:3] == STEPS
    # In another terminal, as somebody would paste them:
    shell = {**tb.environment, "PATH": elsewhere}
    script = "\n".join(["set -e", line, *STEPS])
    done = subprocess.run(["sh", "-c", script], env=shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "claimed it" in done.stdout


def test_where_tb_is_found_already_the_path_is_left_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        until(lambda: STEPS[-1] in daemon.log.read_text(), "it has said everything")
        said = daemon.log.read_text()
    assert "export PATH" not in said
    assert "browser: tb web" in said
    assert not LINK.search(said), "a link does not stay in a log"

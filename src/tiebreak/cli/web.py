"""`tb web`: signs a browser in at the daemon of the board, and signs browsers out."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, Refused, Unavailable
from ..text import plain, span
from .parser import Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..remote import RemoteEngine
    from .context import Context
    from .parser import Args

START = "`tb serve --detach` starts one; `tb --board http://HOST:PORT web` asks one at another address"


@command(
    "web",
    "Open the board in your browser: a link that signs it in once, for reading.",
    Option("write", text="let this browser act, too: everything it does is done under your name"),
    Option("print", text="print the link and open nothing"),
    Option("out", text="sign all browsers out"),
    example="tb web",
)
def web(context: Context, args: Args) -> None:
    """Needs a daemon (`tb serve`). Where no browser can be opened, as over SSH, it prints the link."""
    from ..remote import RemoteEngine

    if args.out and args.write:
        raise Invalid("web: --out ends what --write begins; give one of them")
    address = _daemon(args.board)
    engine = RemoteEngine(address)
    person = _person(args)
    try:
        if args.out:
            count = _asked(engine, "/web/out", {})["signed_out"]
            browsers = "1 browser" if count == 1 else f"{count} browsers"
            context.answer({"signed_out": count, "daemon": address}, f"signed {browsers} out of {plain(address)}")
            return
        wanted = {"https": address.startswith("https:"), "person": person, "write": args.write}
        made = _asked(engine, "/web/code", wanted)
    finally:
        engine.close()
    site = made["url"] if address.startswith("unix:") else site_of(address)
    link = site + made["path"]
    opened = not args.print and not context.json and _can_open() and _open(link)
    answer = {"link": link, "daemon": address, "seconds": made["seconds"], "opened": opened}
    if args.write:
        answer["acts_as"] = person
    context.answer(answer, _told(context, link, site, address, made["seconds"], opened, person if args.write else ""))


def _person(args: Args) -> str:
    """Whose name stands at what the browser does: the agent that is named, or else who is logged in."""
    from ..names import short

    named = args["as"] or os.environ.get("TIEBREAK_AGENT")
    if named:
        return short(named)
    import getpass
    import re

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return re.sub(r"[^A-Za-z0-9._-]", "-", user) or "operator"


def _daemon(board: str | None) -> str:
    """The address of the board's daemon; over its socket if it has one here, which needs no token."""
    from ..board import default_address
    from ..daemon.lock import served
    from ..engine.addresses import path_of, without_password
    from ..user_folders import DEFAULT_ADDRESS

    address = board or default_address()
    if address.startswith(("http://", "https://", "unix:")):
        return address
    if address.startswith(("postgresql://", "postgres://")):
        name = without_password(address)
    else:
        name = os.path.realpath(path_of(address) or address)
    facts = served(name, DEFAULT_ADDRESS)
    if facts is None:
        raise Refused(f"board {name}: no daemon serves it", hint=START)
    if not facts:
        raise Unavailable(f"board {name}: its daemon is starting", hint="run the same command again")
    if not any(each.startswith("http") for each in facts["addresses"]):
        raise Refused(
            f"board {name}: its daemon listens on its unix socket alone, which no browser can reach",
            hint="start it with --addr HOST:PORT",
        )
    return str(facts["addresses"][0])


def site_of(address: str) -> str:
    """Where a browser finds the daemon of an http or https address, which may leave the port out as boards do."""
    from ..user_folders import host_and_port

    scheme, _, rest = address.partition("://")
    if scheme == "https":
        return address.rstrip("/")
    host, port = host_and_port(rest.rstrip("/"), "board")
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _asked(engine: RemoteEngine, target: str, body: dict[str, Any]) -> dict[str, Any]:
    from ..text import json, read_json

    answer = engine.ask("POST", target, json(body).encode())
    try:
        found = read_json(answer.decode())
        if isinstance(found, dict) and (str(found.get("path")).startswith("/") or "signed_out" in found):
            return found
    except ValueError:
        pass
    raise Unavailable("the daemon's answer is not a link", hint="is it older than this `tb`? start it again")


def _can_open() -> bool:
    """Whether this is somebody's own screen: a terminal, not over SSH, and somewhere that a browser could appear."""
    environ = os.environ
    if not sys.stdout.isatty() or environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    shows = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("BROWSER")
    return bool(shows) or sys.platform == "darwin"


def _open(link: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(link)
    except (OSError, webbrowser.Error):
        return False


def _told(context: Context, link: str, site: str, address: str, seconds: float, opened: bool, acts_as: str) -> str:
    daemon = plain(site) if site == address else f"{plain(site)} ({plain(address)})"
    how = f"opened a browser at {plain(site)}; if none appears:" if opened else "open this in your browser:"
    lines = [f"{context.styled('daemon', 'bold')}  {daemon}", how, f"  {plain(link)}"]
    lines.append(context.styled(f"  it works once, within {span(seconds)}", "dim"))
    if acts_as:
        lines.append(context.styled(f"  the browser may act: what it does is done as {plain(acts_as)}", "dim"))
    if os.environ.get("SSH_CONNECTION") and "//127.0.0.1:" in site:
        port = site.rpartition(":")[2]
        forward = f"ssh -N -L {port}:127.0.0.1:{port} {plain(os.uname().nodename)}"
        lines.append(context.styled(f"  a browser on another machine needs this there first: {forward}", "dim"))
    return "\n".join(lines)

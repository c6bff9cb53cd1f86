"""`tb serve`: runs the daemon, in the foreground or background, stops it, and prints a service unit."""

from __future__ import annotations

import os
import sys

from ..cli.parser import Option, command, whole
from ..engine.addresses import without_password
from ..errors import Invalid, Refused, Unavailable
from ..limits import DAEMON_PATIENCE, MAX_WORKERS
from ..text import plain
from ..user_folders import DEFAULT_ADDRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cli.context import Context
    from ..cli.parser import Args
    from ..daemon.server import Daemon


@command(
    "serve",
    "Serve the board to many clients, over HTTP on loopback and a unix socket.",
    Option("addr", "HOST:PORT", f"where to listen (default {DEFAULT_ADDRESS}); `none` for the unix socket alone"),
    Option("socket", "PATH", "the unix socket (default: in a private folder)"),
    Option("host", "NAME", "another host name that clients use (repeatable)", many=True),
    Option("token-file", "FILE", "a file with a lasting token; created if needed (default: a new token at each start)"),
    Option("open", text="need no token on loopback, except for jobs, backups and repairs"),
    Option("open-jobs", text="with --open: need no token for those either"),
    Option("workers", "N", "also run this many workers, each with one job at a time", default=0, convert=whole),
    Option("vault", "DIR", "also keep a vault of Markdown notes up to date in this folder (see `tb help vault`)"),
    Option("log", "FORM", "format of the log: human or json", default="human"),
    Option("log-requests", text="log each request, not only those that fail"),
    Option("detach", text="run in the background; return when it is ready"),
    Option("stop", text="stop the daemon of this board on this machine, and wait until it has ended"),
    Option("print-unit", text="print a service unit for systemd or launchd"),
    Option("for", "SYSTEM", "with --print-unit: systemd or launchd (default: this machine's)"),
    example="tb serve --detach",
)
def serve(context: Context, args: Args) -> int:
    """Only one daemon serves a board; a second one is refused, and told where the first one is."""
    if args.log not in ("human", "json"):
        raise Invalid(f"serve: --log: human or json, got {args.log!r}")
    if args.open_jobs and not args.open:
        raise Invalid("serve: --open-jobs only makes sense with --open")
    if not 0 <= args.workers <= MAX_WORKERS:
        raise Invalid(f"serve: --workers: from 0 to {MAX_WORKERS}, got {args.workers}")
    board = _board_address(args)
    if args.print_unit:
        return _print_unit(context, args, board)
    if args.stop:
        return _stop(context, without_password(board), args.addr)
    if args.detach:
        return _detach(context, args, board)
    return _serve(context, args, board)


def _board_address(args: Args) -> str:
    from ..board import default_address
    from ..engine.addresses import path_of

    address = args.board or default_address()
    if address.startswith(("http://", "https://", "unix:")):
        raise Invalid(f"serve: {address} is a daemon already", hint="--board PATH names the board to serve")
    if address.startswith(("postgresql://", "postgres://")):
        return address
    return os.path.realpath(path_of(address) or address)


def _serve(context: Context, args: Args, board: str) -> int:
    try:
        from ..daemon import log_format
        from ..daemon.server import Settings
        from .daemon_assembly import assemble_daemon
    except ImportError as exc:
        from ..installation import missing_extra

        raise missing_extra(f"serve: {exc.name} is not installed", "serve") from exc
    from ..engine import connect

    engine = connect(board)
    try:
        settings = Settings(
            address=_addr(args),
            socket=args.socket,
            hosts=tuple(args.host),
            token_file=args.token_file,
            open=args.open,
            open_jobs=args.open_jobs,
            called={"address": "--addr", "open": "--open", "token_file": "--token-file"},
        )
        from ..board import Board

        project = Board(engine, project=_project(args)).project if args.workers else ""
        if args.vault:
            _prepare_vault(args.vault)
        daemon = assemble_daemon(engine, settings, workers=args.workers, project=project, vault=args.vault)
        log_format.begin(args.log, requests=args.log_requests)
        daemon.serve(lambda: _tell(context, daemon))
        if daemon.stuck:
            os._exit(1)  # a thread still waits for the board, and a normal exit would wait for it
    finally:
        engine.close()
    return 0


def _prepare_vault(path: str) -> None:
    """Refuse a folder that cannot be a vault before anything is served; a new vault has all projects."""
    from ..vault.vault_folder import KEEP, open_vault

    vault = open_vault(path, into=False)
    try:
        if "project" not in vault.settings:
            vault.save_settings(project=None, pruned=KEEP)
    finally:
        vault.close()


def _project(args: Args) -> str:
    """The names of the project whose jobs the workers run: the one of the folder where the daemon is started."""
    from ..board import here
    from ..names import project
    from ..project_identity import project_names

    given = args.project or os.environ.get("TIEBREAK_PROJECT")
    return project(given) if given else project_names(here())


def _tell(context: Context, daemon: Daemon) -> None:
    """What a daemon in the foreground says when it serves. Its terminal is taken, so the rest is for another one."""
    facts = daemon.facts()
    link = daemon.link() if sys.stdout.isatty() else ""  # elsewhere it would stay in a log
    context.answer(facts, "\n".join([_where(context, facts, link), *_next_steps(context)]))


def _where(context: Context, facts: dict[str, Any], link: str = "") -> str:
    """Board, addresses, and how to get at them by `tb` and by a browser."""
    lines = [f"serving {context.styled(plain(facts['board']), 'bold')}"]
    lines += [f"  {plain(address)}" for address in facts["addresses"]]
    lines.append(context.styled(f"  export TIEBREAK_BOARD={facts['addresses'][-1]}", "dim"))
    if facts["addresses"][-1].startswith("http"):
        lines.append(
            f"  browser: {plain(link)} (once, within a minute; later: tb web)" if link else "  browser: tb web"
        )
    return "\n".join(lines)


def _next_steps(context: Context) -> list[str]:
    """Three commands that work when they are pasted, after a line for the PATH if `tb` is not there."""
    steps = ["tb post 'fix the login bug' --key login-bug", "tb claim login-bug", "tb why login-bug"]
    folder = _folder_to_add()
    if folder:
        steps.insert(0, f'export PATH="{plain(folder)}:$PATH"')
    return ["try next, in another terminal:", *(f"  {context.styled(step, 'accent')}" for step in steps)]


def _folder_to_add() -> str:
    """The folder of this `tb` if a shell would not find it by its name; "" if it would."""
    from shutil import which

    folder = os.path.dirname(os.path.abspath(sys.executable))
    if not os.path.exists(os.path.join(folder, "tb")):
        return ""  # installed without its scripts
    found = which("tb")
    return "" if found and os.path.realpath(found) == os.path.realpath(os.path.join(folder, "tb")) else folder


def _arguments(args: Args, board: str) -> list[str]:
    """The arguments of `tb` that run the same daemon in the foreground."""
    secret = without_password(board) != board  # every user of the machine can see command lines
    words = [
        *([] if secret else ["--board", board]),
        "serve",
        "--addr",
        args.addr or DEFAULT_ADDRESS,
        "--log",
        args.log,
    ]
    for name in ("socket", "token_file", "vault"):
        if args[name]:
            words += [f"--{name.replace('_', '-')}", os.path.abspath(args[name])]
    for host in args.host:
        words += ["--host", host]
    if args.workers:
        words += ["--workers", str(args.workers), "--project", _project(args).partition(" ")[0]]
    return [*words, *(f"--{name.replace('_', '-')}" for name in ("open", "open_jobs", "log_requests") if args[name])]


def _detach(context: Context, args: Args, board: str) -> int:
    """Start the daemon in the background, and wait until it is ready or has failed."""
    import subprocess
    import time

    from ..daemon.lock import already_served, served
    from ..user_folders import socket_for

    name, addr = without_password(board), _addr(args)
    if (running := served(name, addr)) is not None:
        raise already_served(name, running)
    path = socket_for(name).removesuffix(".sock") + ".log"
    log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    began = os.fstat(log).st_size
    command = [sys.executable, "-m", "tiebreak", *_arguments(args, board)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "TIEBREAK_BOARD": board},
    )
    end = time.monotonic() + DAEMON_PATIENCE
    while time.monotonic() < end:
        facts = served(name, addr)
        if facts and facts.get("pid") == child.pid:
            context.answer({**facts, "log": path}, _where(context, facts) + f"\n  log in {plain(path)}")
            return 0
        if child.poll() is not None:
            said = os.pread(log, 4096, began).decode("utf-8", "replace").strip()
            raise Refused(f"serve: the daemon ended with {child.returncode}: {said or 'it said nothing'}")
        time.sleep(0.02)
    raise Unavailable(f"serve: the daemon does not serve after {DAEMON_PATIENCE:g} s", hint=f"its log is {path}")


def _addr(args: Args) -> str | None:
    return None if args.addr == "none" else str(args.addr or DEFAULT_ADDRESS)


def _stop(context: Context, board: str, addr: str | None) -> int:
    """Tell the daemon to stop, and wait until it has: as long as it tells that it drains."""
    import signal
    import time

    from ..daemon.lock import facts_in

    path, pid = _to_stop(board, addr)
    os.kill(pid, signal.SIGTERM)
    told, seen, end = "", None, time.monotonic() + DAEMON_PATIENCE
    # {}: it says nothing at the moment, which is not its end.
    while (now := facts_in(path, board)) is not None and now.get("pid", pid) == pid:
        draining = now.get("draining")
        if draining and draining != seen:
            seen, end = draining, time.monotonic() + DAEMON_PATIENCE
            text = _waits_for(draining["workers"])
            if text != told and not context.json:
                context.say(text)
            told = text
        if time.monotonic() > end:
            raise Unavailable(f"pid {pid} still serves after {DAEMON_PATIENCE:g} s")
        time.sleep(0.02)
    context.answer({"stopped": pid}, f"stopped pid {pid}")
    return 0


def _to_stop(board: str, addr: str | None) -> tuple[str, int]:
    """The lock file and pid of the daemon that is meant: the only one of the board here, or the one at this address."""
    from ..daemon.lock import daemons, place

    found = daemons(board)
    if addr is not None and "://" in board:
        mine = place(board, None if addr == "none" else addr)
        found = {path: each for path, each in found.items() if path == mine or f"http://{addr}" in each["addresses"]}
    if not found:
        raise Refused(f"board {board}: no daemon serves it" + (" on this machine" if "://" in board else ""))
    if len(found) > 1:
        where = ", ".join(each["addresses"][-1] for each in found.values())
        raise Refused(f"board {board}: {len(found)} daemons serve it: {where}", hint="choose one with --addr HOST:PORT")
    [(path, facts)] = found.items()
    return path, int(facts["pid"])


def _waits_for(workers: list[int]) -> str:
    if not workers:
        return "waiting for the requests that are being answered"
    count = "a worker to finish its job" if len(workers) == 1 else f"{len(workers)} workers to finish their jobs"
    return f"waiting for {count}: pid {', '.join(map(str, workers))}"


def _print_unit(context: Context, args: Args, board: str) -> int:
    from .service_units import launchd, systemd

    makers = {"systemd": systemd, "launchd": launchd}
    wanted = args["for"] or ("launchd" if sys.platform == "darwin" else "systemd")
    if wanted not in makers:
        raise Invalid(f"serve: --for: systemd or launchd, got {wanted!r}")
    if without_password(board) != board:
        raise Invalid("serve: a unit is no place for a password", hint="put it into ~/.pgpass and leave it out here")
    words = [sys.executable, "-m", "tiebreak", *_arguments(args, board)]
    for word in words:
        if not word.isprintable():
            raise Invalid(f"serve: a unit cannot have control characters in it: {word!a}")
    unit = makers[wanted](words)
    context.answer({"unit": unit}, unit)
    return 0

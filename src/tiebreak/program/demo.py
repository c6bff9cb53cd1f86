"""`tb demo`: sixteen agents on a temporary board, and the proof that nothing was won twice."""

from __future__ import annotations

from ..cli.parser import Option, command, whole
from ..errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cli.context import Context
    from ..cli.parser import Args

NEXT = {
    "tb init": "set up this repository",
    "tb post 'fix the login bug' --key login-bug": "put a task on your own board",
    "tb claim login-bug": "win it, or learn who has it",
}


@command(
    "demo",
    "See it in a minute: sixteen agents race, one is killed, one is fenced.",
    Option("seconds", "N", "how long it takes, about (default 60)", default=60, convert=whole),
    Option("open", text="open the dashboard in a browser"),
    example="tb demo",
)
def demo(context: Context, args: Args) -> int:
    """Needs no set-up and leaves nothing behind: board, daemon and agents are temporary. Ctrl-C ends all of it.

    Real processes race for tasks and files. One is killed, and another one takes its work over. One is paused until its
    lease has run out, and what it writes afterwards is refused. One asks you a question. A job fails and recovers. Then
    the log proves that each task had one winner and that nothing was lost. Exit 0 only if all of it holds.
    """
    from ..demo.director import LONGEST, SHORTEST, play
    from ..demo.narrator import Narrator

    if not SHORTEST <= args.seconds <= LONGEST:
        raise Invalid(f"demo: --seconds: from {SHORTEST} to {LONGEST}, got {args.seconds}")
    _end_cleanly_on_signals()
    narrator = Narrator(context.say, silent=context.json, colour=context.colour)
    missing = _missing_packages()
    if missing:
        narrator.say("note", f"without the dashboard: {missing}", "warn")

    def opened(link: str) -> None:
        if link:
            narrator.link(link, "in a browser; the link works once, within a minute")
            if context.json:
                context.answer({"link": link})  # at once: in the end nobody serves it any more
        if link and args.open:
            import webbrowser

            webbrowser.open(link)

    facts = play(args.seconds, narrator, _tb(), with_daemon=not missing, opened=opened)
    context.answer(facts)
    if not context.json:
        _tell_the_end(context, narrator, facts)
    return 0 if facts["proved"] else 1


def _tell_the_end(context: Context, narrator: Any, facts: dict[str, Any]) -> None:
    verdict = (
        context.styled("Proved: exactly one winner for each task, and nothing was lost.", "good")
        if facts["proved"]
        else context.styled("Not proved: see the lines with NO.", "bad")
    )
    context.say(
        f"\n{verdict}\n{facts['seconds']:g} seconds, {facts['events']} events. Nothing is left behind.\n\nNext:"
    )
    narrator.next_steps(NEXT)


def _tb() -> list[str]:
    """The command before the words of a `tb` that ends with this process."""
    import os
    import sys

    return [sys.executable, "-P", "-m", f"{__package__}.tied_command", str(os.getpid())]


def _missing_packages() -> str:
    """How to install what the daemon needs, if that is not there; "" if it is."""
    from importlib.util import find_spec

    if all(find_spec(name) for name in ("uvicorn", "uvloop", "jinja2")):
        return ""
    from ..installation import adding

    return f"it needs the extra `serve`: {adding('serve')}"


def _end_cleanly_on_signals() -> None:
    """SIGTERM and SIGHUP end the demonstration as Ctrl-C does."""
    import signal

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)

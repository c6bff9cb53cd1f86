"""Commands about messages: send, inbox, ack."""

from __future__ import annotations

import sys
from functools import partial

from ..errors import NotFound
from ..limits import LISTED
from ..text import ago, block, plain
from .context import standard_input
from .parser import Argument, Option, command, number, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Message
    from .context import Context
    from .parser import Args

EVERYBODY = "all"


@command(
    "send",
    "Send a message to an agent, or to everybody.",
    Argument("to", f"an agent's name, or '{EVERYBODY}'"),
    Argument("text", "what to say; - reads it from standard input", many=True, sets="body"),
    Option("escapes", text="read \\n in the text as a line break", short="e"),
    Option("channel", "CHANNEL", "the channel", sets="messages.send.channel"),
    Option("reply-to", "N", "reply to this message, in its thread", convert=whole),
    Option("importance", "PRIORITY", "its importance", sets="messages.send.importance"),
    Option("ack", text="ask for an acknowledgement"),
    Option("later", text="send it also to a name that nobody has had yet, for an agent that will come"),
    Option("epoch", "N", "send as coordinator; refused if this is not the seat's current epoch", convert=whole),
    example="tb send bob 'the schema changed, please rebase' --importance high",
)
def send(context: Context, args: Args) -> None:
    """Prints the message's number. A name that the project does not know is refused, or asked about on a terminal."""
    body = standard_input() if args.text == ["-"] else " ".join(args.text)
    if args.escapes:
        body = body.replace("\\n", "\n")
    send = partial(
        context.board.messages.send,
        body=body,
        to=None if args.to == EVERYBODY else args.to,
        reply_to=args.reply_to,
        **args.given("channel", "importance"),
        ack_requested=args.ack,
        epoch=args.epoch or 0,
    )
    try:
        message = send(later=args.later)
    except NotFound as refusal:
        question = f"{refusal.message}.\nSend it for an agent that will come?"
        if refusal.reason != "recipient-unknown" or not context.agrees(question):
            raise
        message = send(later=True)
    context.answer(message, f"sent message {message.number} to {plain(message.recipient or 'everybody')}")
    if args.text != ["-"] and "\\n" in body and "\n" not in body and not context.json:
        context.warn(r"the text has \n as two characters; -e sends line breaks instead")
    if message.gone_since and not context.json:
        gone = ago(context.board.upkeep.now() - message.gone_since)
        context.warn(f"{message.recipient} is gone, last here {gone} ago: it is read if {message.recipient} comes back")


@command(
    "inbox",
    "Show your new messages, and mark them as read.",
    Option("all", text="also messages that you have read"),
    Option("peek", text="do not mark them as read"),
    Option("channel", "CHANNEL", "only on this channel"),
    Option("thread", "N", "only in this thread", convert=whole),
    Option("search", "WORDS", "search all your messages for these words", sets="messages.search.query"),
    Option("follow", text="continue with new messages as they come", short="f"),
    number("limit", "at most this many", LISTED),
    example="tb inbox --follow",
)
def inbox(context: Context, args: Args) -> None:
    """Shows unread messages by default."""
    board = context.board
    if args.search is not None:
        _show(context, board.messages.search(query=args.search, limit=args.limit))
        return
    found = _read(context, args)
    if args.follow:
        seen = board.events.last()
        found += _read(context, args, after=found[-1].number if found else 0)
        newest = found[-1].number if found else 0
        _mark(context, args, found)
        for _ in board.follow(after=seen, event="message.sent"):
            more = _read(context, args, after=newest)
            newest = more[-1].number if more else newest
            _mark(context, args, more)
        return
    if not found and not context.json:
        context.say("no messages" if args.all else "no new messages")
    _mark(context, args, found)


def _read(context: Context, args: Args, after: int = 0) -> list[Message]:
    found = context.board.messages.inbox(
        every=args.all, channel=args.channel, thread=args.thread, after=after, limit=args.limit
    )
    if found or (context.json and not args.follow):
        _show(context, found, lines=args.follow)
    return found


def _mark(context: Context, args: Args, found: list[Message]) -> None:
    """Mark messages as read after they were shown; not with a filter, which may have hidden earlier ones."""
    if found and not args.peek and args.channel is None and args.thread is None:
        sys.stdout.flush()
        context.board.messages.mark(upto=found[-1].number)


def _show(context: Context, found: list[Message], *, lines: bool = False) -> None:
    if context.json:
        for each in found if lines else [found]:
            context.answer(each)
        return
    if not found:
        return
    now = context.board.upkeep.now()
    for message in found:
        to = "you" if message.recipient else f"everybody on {message.channel}"
        to = f"{to} about #{message.task}" if message.task else to
        marks = "" if message.importance == "normal" else f", {message.importance}"
        if message.ack_requested and not message.acked_at:
            marks += f", wants `tb ack {message.number}`"
        head = f"{message.number}  {plain(message.sender)} to {plain(to)}, {ago(now - message.sent_at)} ago{marks}"
        context.say(context.styled(head, "accent" if message.importance in ("low", "normal") else "warn"))
        context.say("\n".join("    " + line for line in block(message.body).splitlines()))


@command("ack", "Acknowledge a message.", Argument("number", "the message's number"), example="tb ack 7")
def ack(context: Context, args: Args) -> None:
    """The sender sees that you have read and understood it."""
    message = context.board.messages.ack(number=whole(args.number))
    context.answer(message, f"acknowledged message {message.number} of {plain(message.sender)}")

"""Messages: they are only added, until they are pruned; each agent reads them at its own pace.

A message goes to one agent or to everybody, on a channel, and may belong to a thread. It is addressed to a name, not to
an incarnation: a restarted agent finds the messages that were sent to its name. Reading moves a cursor that belongs to
the reader, and no message is ever changed.

A message about a task is a comment on it. All comments on a task are one thread, which everybody can read there, and
which stays as long as the task. A comment also goes to the inbox of one agent: the one that holds the task, or from
that one to whoever posted it.

A message to a name that the project does not know is refused, because nobody would ever read it: most of the time the
name is mistyped. With `later` it is sent, for an agent that will come. If the recipient is known but gone, the message
is sent, and the sender learns since when.

Why a reader misses no message: a sender takes the scope of the project's messages, so message numbers become visible in
order, and a reader's cursor never passes a number that is not committed yet.
"""

from __future__ import annotations

from ..errors import Invalid, NotFound
from ..limits import LISTED
from ..model import Message, columns, record, row_of
from ..names import PRIORITIES, short, shown
from . import operation, scope
from .agents import close_names, gone_since, is_known
from .events import append
from .references import find, find_here, lookup
from .session_fence import require_seat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Task
    from ..names import AgentId, Epoch, Label, Limit, Number, Priority, Project, Ref, Text
    from . import Transaction

_COLUMNS = (
    columns(Message, "messages.")
    .replace("messages.acked_at", "coalesce(acks.acked_at, 0)")
    .replace("messages.gone_since", "0 AS gone_since")
)
_FROM = "messages LEFT JOIN acks ON acks.message = messages.number AND acks.agent = :me"
_FOR_ME = "(recipient = :me OR (recipient IS NULL AND sender <> :me))"


@operation("messages.send", writes=True, strangers=True, scopes=lambda params: [scope("messages", params["project"])])
def send(
    tx: Transaction,
    *,
    body: Text,
    agent: AgentId = "",
    project: Project = "",
    to: AgentId | None = None,
    channel: Label = "general",
    reply_to: Number | None = None,
    importance: Priority = "normal",
    ack_requested: bool = False,
    epoch: Epoch = 0,
    later: bool = False,
    about: Ref | None = None,
) -> Message:
    """Send a message to one agent, or to everybody; a reply belongs to the thread of the message that it answers.

    With `about`, it is a comment on that task: it goes to the agent that holds the task, or from that one to whoever
    posted it, and everybody can read it at the task. A reply to a comment is a comment, too.

    A name that the project does not know is refused, unless the message is for an agent that will come `later`. If the
    recipient is known but gone, the answer says since when (`gone_since`).

    With an epoch, the sender acts as the project's coordinator: refused unless it holds the seat by exactly that grant.
    """
    if epoch:
        require_seat(tx, agent, project, epoch)
    if to is not None and not later and short(to) != short(agent):
        _refuse_unknown(tx, short(to), project)
    tx.serialize("messages", project)  # a reader's cursor must not pass a number that is not committed yet
    answered = None if reply_to is None else _find(tx, reply_to, project, agent)
    task = _task(tx, about, answered, project)
    thread = answered.thread if answered else _thread_about(tx, task)
    recipient = None if to is None else short(to)
    if task is not None and to is None:
        recipient = _concerned(task, short(agent))
    row = tx.first(
        "INSERT INTO messages (project, sender, recipient, channel, thread, importance, ack_requested, body, sent_at, "
        "task) VALUES (:project, :sender, :recipient, :channel, :thread, :importance, :ack, :body, {now}, :task) "
        "RETURNING number",
        project=project,
        sender=short(agent),
        recipient=recipient,
        task=None if task is None else task.number,
        channel=channel,
        thread=thread,
        importance=PRIORITIES.index(importance),
        ack=int(ack_requested),
        body=body,
    )
    number = row[0] if row else 0
    if not thread:
        tx.all("UPDATE messages SET thread = number WHERE number = :number", number=number)
    append(
        tx,
        "message.sent",
        project,
        subject=None if task is None else task.id,
        name=first_line(body) if to is None or task is not None else f"to {short(to)}",
        kind=channel,
        priority=PRIORITIES.index(importance),
        agent=agent,
        data={"message": number, "to": recipient, "thread": thread or number},
    )
    sent = _find(tx, number, project, agent)
    since = 0 if to is None or short(to) == short(agent) else gone_since(tx, short(to), project)
    return record(Message, (*row_of(sent)[:-1], since)) if since else sent


def _refuse_unknown(tx: Transaction, name: str, project: str) -> None:
    if is_known(tx, name, project):
        return
    close = close_names(tx, name, project)
    meant = f"; there is {', '.join(close)}" if close else ""
    raise NotFound(
        f"nobody called {shown(name)} has been in project {project}{meant}",
        reason="recipient-unknown",
        to=name,
        near=close,
    )


def _task(tx: Transaction, about: str | None, answered: Message | None, project: str) -> Task | None:
    """The task that a message is about, locked so that it is not pruned meanwhile."""
    if about is not None:
        task = find_here(tx, about, project, "about", "{share}")
        if answered is not None and answered.task != task.number:
            raise Invalid(f"about: message {answered.number} is about {_about(answered)}, so the reply is, too")
        return task
    if answered is None or answered.task is None:
        return None
    return lookup(tx, f"#{answered.task}", project, "{share}")


def _about(message: Message) -> str:
    return "no task" if message.task is None else f"#{message.task}"


def _thread_about(tx: Transaction, task: Task | None) -> int:
    """The thread of the comments on a task; 0 if there are none yet, or if there is no task."""
    first = "SELECT thread FROM messages WHERE task = :task ORDER BY number LIMIT 1"
    row = task and tx.first(first, task=task.number)
    return (row and row[0]) or 0


def _concerned(task: Task, sender: str) -> str:
    """In whose inbox a comment belongs; "" for nobody's."""
    holder = task.holder if task.state == "claimed" else None
    if holder is not None and holder != sender:
        return holder
    return task.created_by if task.created_by and task.created_by != sender else ""


def first_line(body: str) -> str:
    """What the event of a message shows of it."""
    return body.strip().split("\n", 1)[0][:200]


def _find(tx: Transaction, number: int, project: str, agent: str) -> Message:
    row = tx.first(
        f"SELECT {_COLUMNS} FROM {_FROM} WHERE messages.number = :number AND project = :project",
        number=number,
        project=project,
        me=short(agent),
    )
    if row is None:
        raise NotFound(f"no message {number} in project {project}")
    return record(Message, row)


@operation("messages.inbox", writes=False, strangers=True)
def inbox(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    every: bool = False,
    channel: Label | None = None,
    thread: Number | None = None,
    after: Number = 0,
    limit: Limit = LISTED,
) -> list[Message]:
    """List the messages that an agent has not read yet, oldest first: those to it and those to everybody.

    `every` includes the messages that it has read. Messages to everybody from before the agent first came do not count
    as unread. Listing does not mark anything as read.
    """
    where = [_FOR_ME, "messages.project = :project", "messages.number > :after"]
    if not every:
        where.append(f"messages.number > ({_CURSOR}) AND (recipient IS NOT NULL OR sent_at >= ({_JOINED}))")
    if channel is not None:
        where.append("channel = :channel")
    if thread is not None:
        where.append("thread = :thread")
    return _select(tx, where, agent, project=project, after=after, channel=channel, thread=thread, limit=limit)


_CURSOR = (
    "SELECT coalesce(max(cursors.message), 0) FROM cursors WHERE cursors.project = :project AND cursors.agent = :me"
)
_JOINED = (
    "SELECT coalesce(min(joined_at), 0) FROM agents WHERE agents.project = :project "
    "AND (agents.id = :me OR substr(agents.id, 1, length(:me) + 1) = :me || '~')"
)


def _select(tx: Transaction, where: list[str], agent: str, *, limit: int, **params: object) -> list[Message]:
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM {_FROM} WHERE {' AND '.join(where)} ORDER BY messages.number LIMIT :limit",
        me=short(agent),
        limit=limit,
        **params,
    )
    return [record(Message, row) for row in rows]


@operation("messages.comments", writes=False, strangers=True)
def comments(
    tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", after: Number = 0, limit: Limit = LISTED
) -> list[Message]:
    """List the comments on a task, oldest first; for the next page, `after` is the last number."""
    task = find(tx, ref, project)
    where = ["messages.task = :task", "messages.number > :after"]
    return _select(tx, where, agent, task=task.number, after=after, limit=limit)


@operation("messages.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    agent: AgentId | None = None,
    thread: Number | None = None,
    query: Text | None = None,
    last: bool = False,
    before: Number | None = None,
    after: Number | None = None,
    limit: Limit = LISTED,
) -> list[Message]:
    """List messages whoever they are for, newest first; for the next page, `before` is the last number.

    With `after`, it lists those after that number, oldest first. It is for people who oversee a project. `agent` lists
    only what one agent sent or was sent, `query` only messages that contain all these words (as in `messages.search`),
    and `last` only the last message of each thread. `acked_at` is when the recipient acknowledged the message.
    """
    where = ["TRUE"]
    if project:
        where.append("messages.project = :project")
    if agent is not None:
        where.append("(sender = :who OR recipient = :who)")
    if thread is not None:
        where.append("messages.thread = :thread")
    if query is not None:
        where.append("{search:messages.body :query}")
    if last:
        where.append(
            "NOT EXISTS (SELECT 1 FROM messages AS later "
            "WHERE later.thread = messages.thread AND later.number > messages.number)"
        )
    if before is not None:
        where.append("messages.number < :before")
    if after is not None:
        where.append("messages.number > :after")
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM messages LEFT JOIN acks ON acks.message = messages.number "
        f"AND acks.agent = messages.recipient WHERE {' AND '.join(where)} "
        f"ORDER BY messages.number{' DESC' if after is None else ''} LIMIT :limit",
        project=project,
        who=short(agent or ""),
        thread=thread,
        query=None if query is None else tx.search_words(_words(query)),
        before=before,
        after=after,
        limit=limit,
    )
    return [record(Message, row) for row in rows]


@operation("messages.mark", writes=True, strangers=True)
def mark(tx: Transaction, *, upto: Number, agent: AgentId = "", project: Project = "") -> int:
    """Mark all messages up to this number as read by an agent, and return its cursor, which never goes back.

    The cursor stops at the newest message of the project, even if the number is that of a later one in another project.
    """
    newest, newest_here = tx.first(
        "SELECT (SELECT coalesce(max(number), 0) FROM messages), "
        "(SELECT coalesce(max(number), 0) FROM messages WHERE project = :project)",
        project=project,
    ) or (0, 0)
    if upto > newest:
        raise Invalid(f"upto: the newest message is {newest}, got {upto}")
    upto = min(upto, newest_here)  # numbers between the two may belong to messages of this project that are still sent
    moved = tx.first(
        "INSERT INTO cursors (project, agent, message) VALUES (:project, :me, :upto) ON CONFLICT (project, agent) "
        "DO UPDATE SET message = CASE WHEN cursors.message > :upto THEN cursors.message ELSE :upto END "
        "RETURNING message",
        project=project,
        me=short(agent),
        upto=upto,
    )
    return int(moved[0]) if moved else upto


@operation("messages.ack", writes=True, strangers=True)
def ack(tx: Transaction, *, number: Number, agent: AgentId = "", project: Project = "") -> Message:
    """Acknowledge a message, so that its sender knows it was understood."""
    # So that it is not pruned meanwhile.
    tx.first("SELECT 1 FROM messages WHERE number = :number {share}", number=number)
    message = _find(tx, number, project, agent)
    if message.recipient not in (None, short(agent)):
        raise Invalid(f"message {number} is not for you but for {message.recipient}")
    new = tx.first(
        "INSERT INTO acks (message, agent, acked_at) VALUES (:number, :me, {now}) ON CONFLICT DO NOTHING "
        "RETURNING agent",
        number=number,
        me=short(agent),
    )
    if new is not None:
        append(
            tx,
            "message.acked",
            project,
            name=f"message {number} of {message.sender}",
            kind=message.channel,
            agent=agent,
            data={"message": number, "to": message.sender, "thread": message.thread},
        )
    return _find(tx, number, project, agent)


@operation("messages.search", writes=False, strangers=True)
def search(
    tx: Transaction, *, query: Text, agent: AgentId = "", project: Project = "", limit: Limit = LISTED
) -> list[Message]:
    """Find the messages that contain all these words, oldest first; `word*` matches every word that begins so.

    Only messages that the agent may read are found: its own, those to it, those to everybody and comments.
    """
    words = _words(query)
    visible = "(recipient IS NULL OR recipient = :me OR sender = :me OR task IS NOT NULL)"
    where = ["{search:messages.body :query}", visible, "messages.project = :project"]
    return _select(tx, where, agent, project=project, limit=limit, query=tx.search_words(words))


def has_words(query: str) -> bool:
    """Whether there is anything in a query to search for. Without that, a search is refused."""
    return bool(_split(query))


def _split(query: str) -> list[str]:
    return [word for word in query.replace('"', " ").split() if any(c.isalnum() for c in word)]


def _words(query: str) -> list[str]:
    """The words to search for."""
    words = _split(query)
    if not words:
        raise Invalid("query: give at least one word")
    return words

"""SQL on several lines: each clause begins a line, and what is too long for one is broken and indented.

For the statements of this project, which are regular: keywords in capitals, one space between words, no comments. Only
white space changes, so the text stays the statement that is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

WIDTH = 115
STEP = 4
"""How far a line is indented inside parentheses, or below the clause that it continues."""

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|:[a-z_]+|\w[\w.]*|::|<>|<=|>=|\|\||@@|.)")
_CLAUSES = (
    *("WITH RECURSIVE", "WITH", "INSERT INTO", "DELETE FROM", "UPDATE", "SELECT DISTINCT", "SELECT", "SET", "VALUES"),
    *("FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "FOR UPDATE", "FOR SHARE", "RETURNING"),
    *("ON CONFLICT", "DO UPDATE SET", "UNION ALL", "UNION"),
)
"""What begins a line. A longer clause comes before the shorter one that it begins with."""
_QUERIES = ("SELECT", "WITH", "VALUES")


@dataclass
class _Token:
    """A word or a sign; or an opening parenthesis, with all that is inside."""

    text: str
    blank: bool
    """Whether a blank comes before it."""
    inside: list[_Token] = field(default_factory=list)

    def __str__(self) -> str:
        return f"({_flat(self.inside)})" if self.text == "(" else self.text


def pretty(sql: str) -> str:
    """The statement, laid out."""
    return "\n".join(_query(_parsed(sql), 0))


def _parsed(sql: str) -> list[_Token]:
    levels: list[list[_Token]] = [[]]
    for found in _TOKEN.finditer(sql.strip()):
        text = found.group(1)
        if text == ")":
            inside = levels.pop()
            levels[-1][-1].inside = inside
            continue
        levels[-1].append(_Token(text, blank=found.group(0) != text and text != ","))
        if text == "(":
            levels.append([])
    [tokens] = levels
    return tokens


def _flat(tokens: list[_Token]) -> str:
    return "".join(f" {each}" if each.blank else str(each) for each in tokens).strip()


def _query(tokens: list[_Token], indent: int) -> list[str]:
    """Each clause on a line of its own."""
    lines: list[str] = []
    for keyword, body in _clauses(tokens):
        lines += _clause(keyword, body, indent)
    return lines


def _clauses(tokens: list[_Token]) -> Iterator[tuple[str, list[_Token]]]:
    begun, body, i = "", [], 0
    while i < len(tokens):
        keyword = _keyword(tokens, i)
        if keyword is None:
            body.append(tokens[i])
            i += 1
            continue
        if begun or body:
            yield begun, body
        begun, body = keyword, []
        i += len(keyword.split())
    yield begun, body


def _keyword(tokens: list[_Token], i: int) -> str | None:
    """The clause that begins with this token."""
    if i and tokens[i - 1].text == "DISTINCT":  # IS NOT DISTINCT FROM
        return None
    for clause in _CLAUSES:
        words = clause.split()
        if [each.text for each in tokens[i : i + len(words)]] == words:
            return clause
    return None


def _clause(keyword: str, body: list[_Token], indent: int) -> list[str]:
    pad = " " * indent
    flat = pad + f"{keyword} {_flat(body)}".strip()
    if len(flat) <= WIDTH:
        return [flat]
    if keyword == "WHERE":
        return _conditions(f"{pad}WHERE ", body, indent + 2)
    if keyword == "SET" or keyword.startswith("WITH"):
        return _each_on_a_line(keyword, body, indent)
    if keyword == "FROM":
        parts = list(_split(body, lambda token: token.text in ("JOIN", "LEFT")))
        return _in_turn(f"{pad}FROM ", parts, indent + 2 if len(parts) > 1 else indent)
    items = list(_split(body, lambda token: token.text == ",", after=True))
    if len(items) == 1:
        return _spread(f"{pad}{keyword} ", body, indent)
    return [f"{pad}{keyword}", *_filled(items, indent + STEP)]


def _each_on_a_line(keyword: str, body: list[_Token], indent: int) -> list[str]:
    """Assignments below their keyword; tables of a WITH beside it, because their parentheses indent already."""
    items = list(_split(body, lambda token: token.text == ",", after=True))
    if keyword.startswith("WITH"):
        return _in_turn(f"{' ' * indent}{keyword} ", items, indent)
    return [f"{' ' * indent}{keyword}", *_in_turn(" " * (indent + STEP), items, indent + STEP)]


def _in_turn(begin: str, parts: list[list[_Token]], indent: int) -> list[str]:
    """The first part after `begin`, each other part on a line of its own."""
    lines: list[str] = []
    for part in parts:
        lines += _spread(begin, part, indent)
        begin = " " * indent
    return lines


def _conditions(begin: str, tokens: list[_Token], indent: int) -> list[str]:
    return _in_turn(begin, list(_split(tokens, lambda token: token.text in ("AND", "OR"))), indent)


def _split(tokens: list[_Token], at: Callable[[_Token], bool], *, after: bool = False) -> Iterator[list[_Token]]:
    """The parts between such tokens, which stay at the beginning of a part or, with `after`, at its end.

    Inside of CASE … END nothing is split.
    """
    part: list[_Token] = []
    cases = 0
    for i, token in enumerate(tokens):
        cases += (token.text == "CASE") - (token.text == "END")
        here = not cases and at(token) and not (token.text == "JOIN" and i and tokens[i - 1].text == "LEFT")
        if here and not after and part:
            yield part
            part = []
        part.append(token)
        if here and after:
            yield part
            part = []
    if part:
        yield part


def _filled(items: list[list[_Token]], indent: int) -> list[str]:
    """As many items in a line as there is room for."""
    lines: list[str] = []
    line = ""
    for item in items:
        flat = _flat(item)
        if line and indent + len(line) + 1 + len(flat) <= WIDTH:
            line += f" {flat}"
            continue
        if line:
            lines.append(" " * indent + line)
            line = ""
        if indent + len(flat) <= WIDTH:
            line = flat
        else:
            lines += _spread(" " * indent, item, indent)
    return [*lines, " " * indent + line] if line else lines


def _spread(begin: str, tokens: list[_Token], indent: int) -> list[str]:
    """An expression. Parentheses that do not fit into a line get lines of their own for their content."""
    flat = begin + _flat(tokens)
    if len(flat) <= WIDTH:
        return [flat]
    lines: list[str] = []
    line, broken = begin, False
    for i, token in enumerate(tokens):
        text = f" {token}" if token.blank and line.strip() and not line.endswith(" ") else str(token)
        rest = 1 if i + 1 < len(tokens) and not tokens[i + 1].blank else 0
        if token.inside and len(line) + len(text) + rest > WIDTH:
            lines.append(line + text[: text.index("(") + 1])
            lines += _inside(token.inside, indent + STEP)
            line = " " * indent + ")"
        elif token.text in ("WHEN", "ELSE", "END") and (broken or len(line) + len(_flat(tokens[i:])) > WIDTH):
            lines.append(line)
            line, broken = " " * (indent + (STEP if token.text != "END" else 0)) + token.text, token.text != "END"
        else:
            line += text
    return [*lines, line]


def _inside(tokens: list[_Token], indent: int) -> list[str]:
    if tokens[0].text in _QUERIES:
        return _query(tokens, indent)
    if any(token.text in ("AND", "OR") for token in tokens):
        return _conditions(" " * indent, tokens, indent)
    return _filled(list(_split(tokens, lambda token: token.text == ",", after=True)), indent)

"""Every message that the troubleshooting page explains is one that the source still says."""

from __future__ import annotations

import ast
import re
from functools import cache

from .snippets import ROOT

SOURCE = ROOT / "src" / "tiebreak"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
EXPLAINED = ("message", "finding")
"""What the first column of a table is called that explains messages."""


def quoted(page: str) -> list[str]:
    """The messages in the first columns of the page's tables."""
    found: list[str] = []
    explains = False
    for line in page.splitlines():
        first = line.strip("|").split(" | ")[0].strip() if line.startswith("|") else ""
        if first in EXPLAINED:
            explains = True
        elif not first:
            explains = False
        elif explains:
            found += re.findall(r"`([^`]+)`", first)
    return found


@cache
def said() -> str:
    """Every text of the source but docstrings, a line each, with `…` for what is filled in."""
    texts = [sql.read_text(encoding="utf-8") for sql in SOURCE.rglob("*.sql")]
    for module in SOURCE.rglob("*.py"):
        texts += _texts(ast.parse(module.read_text(encoding="utf-8")))
    return "\n".join(texts)


def _texts(tree: ast.AST) -> list[str]:
    found: list[str] = []
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found.append(re.sub(r"\{\w*\}", "…", node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
            found.append("".join(parts).replace("\n", " "))
    return found


def is_said(message: str, texts: str) -> bool:
    """Whether one of these texts has the constant parts of a message, in this order."""
    parts = [re.escape(part) for part in re.split(r"\s*…\s*", message) if part]
    return re.search(".*".join(parts), texts) is not None


def test_a_message_that_nobody_says_any_more_is_not_explained() -> None:
    gone = [message for message in quoted(PAGE) if not is_said(message, said())]
    assert gone == [], "reword docs/troubleshooting.md as the source has it now"


def test_the_page_explains_messages_and_not_only_headings() -> None:
    assert len(quoted(PAGE)) > 100
    assert quoted("| message | x |\n|---|---|\n| `a …` · `b` | `c` |\n\n| exit | x |\n| `d` | |") == ["a …", "b"]


def test_a_message_that_was_reworded_is_seen() -> None:
    source = '"""It is kept by nobody."""\nraise Lost(f"{what} is held by {who} for another {left}", hint="wait")\n'
    texts = "\n".join(_texts(ast.parse(source)))
    assert is_said("… is held by … for another …", texts)
    assert is_said("wait", texts)
    assert not is_said("is kept by", texts)
    assert not is_said("for another … is held by", texts)
    assert not is_said("is held by … wait", texts)

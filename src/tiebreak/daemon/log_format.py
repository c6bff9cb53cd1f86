"""The daemon's log: one line for each thing worth telling, for people or for programs, with the request's id."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING

from ..text import json, plain, rfc3339

if TYPE_CHECKING:
    from typing import Any, TextIO


class Line(logging.Formatter):
    """A record as a line of text or as a JSON object."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        facts: dict[str, Any] = dict(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[1] is not None:
            facts["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        level, text = record.levelname.lower(), record.getMessage()
        if self._json:
            return json({"at": rfc3339(record.created), "level": level, "message": text, **facts})
        trace = facts.pop("trace", "")
        shown = " ".join(f"{name}={plain(str(value))}" for name, value in facts.items())
        line = f"{rfc3339(record.created)[11:23]} {level:<7} {plain(text)}{'  ' if shown else ''}{shown}"
        return f"{line}\n{trace.rstrip()}" if trace else line


def begin(form: str, *, requests: bool, stream: TextIO | None = None) -> None:
    """Log to standard error; with `requests`, each of them."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Line(form))
    for name, level in (("tiebreak", logging.DEBUG if requests else logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False

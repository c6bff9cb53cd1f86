"""The format of the daemon's log: one line for each entry, as text or as JSON, with the id of the request."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING

from ..text import json, plain, rfc3339

if TYPE_CHECKING:
    from typing import Any, TextIO


class LogFormatter(logging.Formatter):
    """Formats a log record as a line of text, or as a JSON object when `form` is `json`."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line. A traceback follows on lines of its own, unless the form is JSON."""
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
    """Set up logging to standard error. With `requests`, log every request, not only failed ones."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LogFormatter(form))
    for name, level in (("tiebreak", logging.DEBUG if requests else logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False

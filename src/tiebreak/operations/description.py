"""Descriptions of everything that is declared, as data: operations, records and errors.

The Markdown reference, the daemon's pages, its OpenAPI document and the typed groups of the board are each made from
these descriptions and a template. None of them reads an annotation or a default itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from .. import errors
from ..kinds import RULES, Kind
from ..model import RECORDS, wire_kinds
from ..names import PRIORITIES
from . import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..model import Record
    from . import Operation

    Schema = dict[str, Any]

WORDS = {
    "int": "number",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "Holder": "AgentId",
    "Json": "JSON",
}
"""Plain words for kinds whose names mean little to readers who do not write Python."""
ANSWERS: dict[str, Schema] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "Holder": {"type": "string"},
    "Time": {"type": "string", "format": "date-time"},
    "Priority": {"type": "string", "enum": list(PRIORITIES)},
    "Words": {"type": "array", "items": {"type": "string"}},
    "Json": {},
}
"""The JSON Schema of answers, for all kinds that are not records."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    kind: Kind
    about: str
    """A description of its values in words."""
    required: bool
    """Whether every caller must give it."""
    filled: bool
    """Whether a local board fills it in (the agent, the project). Over the wire it must be given."""
    default: Any

    @property
    def schema(self) -> Schema:
        """The JSON Schema of what the server accepts."""
        made = {**self.kind.schema(), "description": self.about}
        return made if self.required or self.filled else {**made, "default": self.default}


@dataclass(frozen=True)
class OperationDescription:
    """One operation, as the references describe it."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    returns: Kind
    writes: bool
    strangers: bool
    """Whether some calls of it need no token on an open daemon."""
    module: str
    function: str
    """Where it is declared."""

    @property
    def group(self) -> str:
        """`tasks` of `tasks.claim`."""
        return self.name.partition(".")[0]

    @property
    def method(self) -> str:
        """`claim` of `tasks.claim`."""
        return self.name.partition(".")[2]

    @property
    def summary(self) -> str:
        """The first line of its text."""
        return self.text.partition("\n")[0]


@dataclass(frozen=True)
class RecordDescription:
    """One record, with its fields on the wire."""

    name: str
    text: str
    fields: dict[str, Kind]


@dataclass(frozen=True)
class ErrorDescription:
    """One kind of error."""

    name: str
    code: int
    """The error code of JSON-RPC."""
    text: str


def text_of(thing: Any) -> str:
    """The docstring of a class, function or operation, without the indentation of the source."""
    return cleandoc(thing.__doc__ or "")


def operations(those: Iterable[Operation[..., Any]] | None = None) -> list[OperationDescription]:
    """Describe these operations; all operations if none are given."""
    return [_operation(each) for each in (every().values() if those is None else those)]


def _operation(declared: Operation[..., Any]) -> OperationDescription:
    return OperationDescription(
        name=declared.name,
        text=text_of(declared),
        parameters=tuple(_parameter(declared, name, kind) for name, kind in declared.parameters.items()),
        returns=declared.returns,
        writes=declared.writes,
        strangers=declared.strangers is not False,
        module=declared.function.__module__,
        function=declared.function.__name__,
    )


def _parameter(declared: Operation[..., Any], name: str, kind: Kind) -> Parameter:
    missing = name not in declared.defaults
    return Parameter(
        name=name,
        kind=kind,
        about=RULES[kind.base].doc,
        required=missing,
        filled=not missing and declared.required(name),
        default=declared.defaults.get(name),
    )


def records() -> list[RecordDescription]:
    """Describe all records."""
    return [_record(record) for record in RECORDS.values()]


def _record(record: type[Record]) -> RecordDescription:
    return RecordDescription(record.__name__, text_of(record), wire_kinds(record))


def error_kinds() -> list[ErrorDescription]:
    """Describe all errors that a call can raise."""
    return [
        ErrorDescription(kind.__name__, kind.rpc_code, text_of(kind))
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TiebreakError) and kind is not errors.TiebreakError
    ]


def types() -> dict[str, str]:
    """The kinds that parameters are declared with, and what each means."""
    return {name: rule.doc for name, rule in RULES.items()}


def answer_schema(kind: Kind, reference: Callable[[str], Schema]) -> Schema:
    """The JSON Schema of an answer; `reference` makes the reference to a record's schema."""
    if kind.item is not None:
        made: Schema = {"type": "array", "items": answer_schema(kind.item, reference)}
    else:
        made = reference(kind.name) if kind.name in RECORDS else dict(ANSWERS[kind.name])
    return {"anyOf": [made, {"type": "null"}]} if kind.optional and made else made

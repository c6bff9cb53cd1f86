"""The references in docs/ are generated: they must say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiebreak.groups import generate
from tiebreak.operations import every
from tiebreak.program import find, names, reference

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "made"), [("cli.md", reference.cli), ("operations.md", reference.operations)])
def test_a_reference_that_has_drifted_from_the_code_is_noticed(name: str, made: object) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == made(), f"run `make docs` to renew docs/{name}"  # type: ignore[operator]


@pytest.mark.parametrize("name", list(generate.modules()))
def test_a_generated_group_that_has_drifted_from_the_operations_is_noticed(name: str) -> None:
    made = generate.modules()[name]
    assert (generate.FOLDER / name).read_text(encoding="utf-8") == made, f"run `make docs` to renew groups/{name}"


def test_no_generated_group_is_left_behind() -> None:
    ours = {path.name for path in generate.FOLDER.glob("*.py")} - {"__init__.py", "generate.py"}
    assert ours == set(generate.modules())


def test_no_command_or_option_goes_without_help() -> None:
    for name in names():
        command = find(name)
        texts = [command.text, command.run.__doc__]
        texts += [argument.text for argument in command.arguments] + [option.text for option in command.options]
        assert all(texts), name


def test_no_operation_goes_without_a_word() -> None:
    assert [name for name, operation in every().items() if not operation.__doc__] == []

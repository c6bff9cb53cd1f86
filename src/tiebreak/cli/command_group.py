"""Families: commands whose first word chooses another one, such as `tb cron add`.

The outer declaration knows the options of all its members, so that they may stand anywhere; which member takes which is
decided when it is chosen.
"""

from __future__ import annotations

from ..errors import Invalid
from .parser import Args, Argument, Command, Option, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .context import Context

    Run = Callable[[Context, Args], int | None]


class CommandGroup:
    """The members of one command."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, Command] = {}

    def command(self, name: str, text: str, *parts: Argument | Option, rest: str = "") -> Callable[[Run], Run]:
        """Declare a function as `tb FAMILY NAME`."""

        def declare(run: Run) -> Run:
            arguments = tuple(part for part in parts if isinstance(part, Argument))
            options = tuple(part for part in parts if isinstance(part, Option))
            self.members[name] = Command(f"{self.name} {name}", text, run, arguments, options, rest, "")
            return run

        return declare

    @property
    def words(self) -> Argument:
        """What stands behind the family's name."""
        known = ", ".join(self.members)
        return Argument("words", f"what to do: {known}; then what it is about", many=True)

    @property
    def options(self) -> list[Option]:
        """Those of all members."""
        return list({option.name: option for each in self.members.values() for option in each.options}.values())

    def choose(self, args: Args) -> tuple[Command, Args]:
        """The member that the words name, and its values; an option that belongs to another one is refused."""
        first, *words = args.words
        if first not in self.members:
            known = ", ".join(self.members)
            raise Invalid(f"{self.name}: unknown subcommand {first!r}", hint=f"there are: {known}")
        wanted = self.members[first]
        if args.rest and not wanted.rest:
            words += args.rest
        inner = Args(args)
        inner.update({option.key: [] if option.many else option.default for option in wanted.options})
        place(wanted, words, inner)
        inner.update(self._given(wanted, args))
        return wanted, inner

    def run(self, context: Context, args: Args) -> int:
        """Choose and run."""
        wanted, inner = self.choose(args)
        return wanted.run(context, inner) or 0

    def _given(self, wanted: Command, args: Args) -> dict[str, Any]:
        own = {option.name for option in wanted.options}
        given = {option: args[option.key] for option in self.options if args[option.key] not in ([], option.default)}
        for option in given:
            if option.name not in own:
                raise Invalid(f"{wanted.name}: it takes no --{option.name}")
        return {option.key: value for option, value in given.items()}

"""Commands with subcommands, such as `tb cron add`.

The outer command declares the options of all its subcommands, so that an option may stand before or after the
subcommand's name. Whether the chosen subcommand takes that option is checked once it is known.
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
    """A command and its subcommands; every subcommand also takes the `shared` options.

    `default` is the subcommand that runs if none is named.
    """

    def __init__(self, name: str, *shared: Option, default: str = "") -> None:
        self.name = name
        self._fallback = default
        self.subcommands: dict[str, Command] = {}
        self._shared = shared

    def command(self, name: str, text: str, *parts: Argument | Option, rest: str = "") -> Callable[[Run], Run]:
        """Declare a function as the subcommand `tb GROUP NAME`."""

        def declare(run: Run) -> Run:
            arguments = tuple(part for part in parts if isinstance(part, Argument))
            options = (*self._shared, *(part for part in parts if isinstance(part, Option)))
            self.subcommands[name] = Command(f"{self.name} {name}", text, run, arguments, options, rest, "")
            return run

        return declare

    @property
    def parts(self) -> list[Argument | Option]:
        """What the outer command declares: the subcommand, its arguments, and the options of all subcommands."""
        listed = ", ".join(self.subcommands)
        names = Argument("subcommand", listed, optional=bool(self._fallback), commands=self.subcommands)
        words = Argument("words", "what the subcommand takes", many=True, optional=True)
        return [names, words, *self._options()]

    def _options(self) -> list[Option]:
        return list({option.name: option for each in self.subcommands.values() for option in each.options}.values())

    def choose(self, args: Args) -> tuple[Command, Args]:
        """The subcommand and its values; raises `Invalid` for an option that it does not take."""
        chosen = args.subcommand or self._fallback
        if chosen not in self.subcommands:
            known = ", ".join(self.subcommands)
            raise Invalid(f"{self.name}: unknown subcommand {args.subcommand!r}", hint=f"there are: {known}")
        wanted = self.subcommands[chosen]
        words = list(args.words)
        if args.rest and not wanted.rest:
            words += args.rest
        inner = Args(args)
        inner.update({option.key: _default(option) for option in wanted.options})
        place(wanted, words, inner)
        inner.update(self._given(wanted, args))
        return wanted, inner

    def run(self, context: Context, args: Args) -> int:
        """Run the subcommand that the words name."""
        wanted, inner = self.choose(args)
        return wanted.run(context, inner) or 0

    def _given(self, wanted: Command, args: Args) -> dict[str, Any]:
        own = {option.name for option in wanted.options}
        given = {option: args[option.key] for option in self._options() if args[option.key] != _default(option)}
        for option in given:
            if option.name not in own:
                raise Invalid(f"{wanted.name}: it takes no --{option.name}")
        return {option.key: value for option, value in given.items()}


def _default(option: Option) -> Any:
    return [] if option.many else option.default

"""Commands of other packages, found through the entry point group `zocosmo.commands`.

An entry's name is the command, its object a function as `typer` takes it: name = "package.module:function".
The group is read only for `--help` and for names that are not built in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from zocosmo.cli.menu import grouped, with_words
from zocosmo.errors import InputError

GROUP = "zocosmo.commands"


class ReaderGone(Exception):
    """Whoever read our output has closed the pipe, as head does."""


class Command(TyperCommand):
    """A command whose help names arguments without the types of Python."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                rows[parameter.param_type_name].append(record)
        arguments = [(name.split(" <")[0], about) for name, about in rows["argument"]]
        for title, listed in (("Arguments", arguments), ("Options", rows["option"])):
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)


class Commands(TyperGroup):
    """The built-in commands, then those of other packages; a built-in name cannot be replaced."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Commands in the groups of the menu, all names in one column."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        for title, group in grouped(names):
            rows = [(name.ljust(width), line or self._line(name, formatter)) for name, line in group.items()]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _reader():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _reader():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_plugins()
        return super().list_commands(ctx)

    def _line(self, name: str, formatter: Any) -> str:
        return str(self.commands[name].get_short_help_str(formatter.width - 6 - len(name)))

    def _add_plugins(self) -> None:
        for name, command in plugins().items():
            self.commands.setdefault(name, command)


@contextmanager
def _reader() -> Iterator[None]:
    """Raise what typer would otherwise turn into exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


@cache
def plugins() -> dict[str, Any]:
    return {entry.name: load(entry) for entry in entry_points(group=GROUP)}


def load(entry: EntryPoint) -> Any:
    """The entry's command; where it cannot be loaded, a command that says why and leaves the others alone."""
    try:
        return _command(entry.name, entry.load())
    except Exception as error:
        package = entry.dist.name if entry.dist else "an unknown package"
        why = f"{type(error).__name__}: {error}"
        text = f"{entry.name} of {package} cannot be loaded ({why}); update or uninstall {package}"

        def refuse() -> None:
            raise InputError(text)

        return _command(
            entry.name,
            refuse,
            help=f"Cannot be loaded: {why}",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )


def _command(name: str, function: Any, **options: Any) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=Command, **options)(with_words(function))
    return typer.main.get_command(alone)

"""A strict reader of command lines, driven by tables of :class:`Option`.

No abbreviations, no glued values, negative numbers are values, an unknown option names the nearest one.
An option given twice takes the last value (those that collect values keep all), so that flags can be
appended to a script's own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..config.names import nearest
from ..config.values import Scalar, looks_like_number, read_value

WIDTH = 100


class UsageError(ValueError):
    """A command line that cannot be understood."""


@dataclass(frozen=True)
class Option:
    """One option: the only place where its names, type, effect and help stand."""

    long: str
    """Long name with its dashes; also the key under which its value is found."""
    help: str
    short: str = ""
    kind: str = "text"
    """One of ``config.values.KINDS``, or ``switch`` for an option without a value."""
    targets: tuple[str, ...] = ()
    """Dotted leaves of ``Experiment`` it sets: one for the whole value, or one for each of ``count``."""
    count: int = 1
    """Number of values; 0 means one or more."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    """Known values, compared without regard to case; empty when any is one."""
    group: str = ""
    may_be_empty: bool = False
    by_encoder: bool = False
    """The targets are leaves of several encoders, and the one of the chosen encoder is set."""
    repeats: bool = False
    """Given again it adds its values to those before, instead of replacing them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Short and long name, those it has."""
        return tuple(name for name in (self.short, self.long) if name)


@dataclass(frozen=True)
class Section:
    """Makes the options of one group of the help."""

    title: str
    prefix: str
    """Stands before targets that begin with a dot."""

    def __call__(
        self,
        short: str,
        long: str,
        kind: str,
        targets: str,
        help: str,
        *,
        count: int = 1,
        metavar: str = "",
        choices: tuple[str, ...] = (),
        may_be_empty: bool = False,
        by_encoder: bool = False,
        repeats: bool = False,
    ) -> Option:
        """One option; ``targets`` are leaves of the experiment, parted by spaces."""
        leaves = tuple(self.prefix + leaf if leaf.startswith(".") else leaf for leaf in targets.split())
        return Option(
            long,
            help,
            short,
            kind,
            leaves,
            count,
            metavar,
            choices,
            self.title,
            may_be_empty,
            by_encoder,
            repeats,
        )


@dataclass(frozen=True)
class Given:
    """An option as it stood on the command line."""

    option: Option
    name: str
    """The name that was typed."""
    values: tuple[Scalar, ...]

    @property
    def value(self) -> Scalar:
        """Its first value."""
        return self.values[0]

    @property
    def text(self) -> str:
        """How it was written."""
        return " ".join([self.name, *(str(value) for value in self.values)])


@dataclass(frozen=True)
class CommandLine:
    """What a command line says: words that belong to no option, and the options by long name."""

    words: tuple[str, ...]
    given: Mapping[str, Given]

    def has(self, long: str) -> bool:
        """Whether the option was given."""
        return long in self.given

    def get(self, long: str, default: Scalar) -> Scalar:
        """The option's first value, or ``default``."""
        return self.given[long].value if long in self.given else default


def parse(
    argv: Sequence[str], options: Iterable[Option], unavailable: Mapping[str, str] | None = None
) -> CommandLine:
    """Read ``argv`` by the table ``options``.

    Args:
        argv: words after the program's name.
        options: what is understood.
        unavailable: names that get a sentence of their own as an error.

    Raises:
        UsageError: with one sentence that names the option and a way out.
    """
    table = {name: option for option in options for name in option.names}
    unavailable = unavailable or {}
    words: list[str] = []
    given: dict[str, Given] = {}
    position = 0
    while position < len(argv):
        word = argv[position]
        position += 1
        if word == "--":
            words.extend(argv[position:])
            break
        if not is_option_like(word):
            words.append(word)
            continue
        if word in unavailable:
            raise UsageError(unavailable[word])
        option = table.get(word)
        if option is None:
            raise UsageError(_unknown_option(word, table))
        texts, position = _take(option, word, argv, position)
        before = given.pop(option.long, None)  # its place among the others is that of the last time
        kept = before.values if before is not None and option.repeats else ()
        given[option.long] = Given(option, word, (*kept, *_read(option, word, texts)))
    return CommandLine(tuple(words), given)


def is_option_like(word: str) -> bool:
    """Whether ``word`` starts like an option and is not a negative number or a lone dash."""
    return len(word) > 1 and word.startswith("-") and not looks_like_number(word)


def _take(option: Option, name: str, argv: Sequence[str], position: int) -> tuple[list[str], int]:
    if option.kind == "switch":
        return [], position
    texts: list[str] = []
    while position < len(argv) and not is_option_like(argv[position]):
        if option.count and len(texts) == option.count:
            break
        texts.append(argv[position])
        position += 1
    wanted = option.count or 1
    if len(texts) < wanted:
        plural = "value" if option.count == 1 else "values"
        more = "" if position >= len(argv) else f" before {argv[position]}"
        raise UsageError(f"{name} expects {option.count or 'one or more'} {plural}, got {len(texts)}{more}")
    return texts, position


def _read(option: Option, name: str, texts: list[str]) -> tuple[Scalar, ...]:
    if option.kind == "switch":
        return (True,)
    values: list[Scalar] = []
    for text in texts:
        if text == "" and not option.may_be_empty:
            raise UsageError(f"{name} got an empty value; leave the option out to use the default")
        if option.choices:
            values.append(_choose(name, text, option.choices))
            continue
        try:
            values.append(read_value(option.kind, text))
        except ValueError as error:
            raise UsageError(f"{name} {error}") from None
    return tuple(values)


def _choose(name: str, text: str, known: tuple[str, ...]) -> str:
    for value in known:
        if value.lower() == text.lower():
            return value
    close = nearest(text, known, count=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"{name} expects one of {', '.join(known)}, not {text!r}{hint}")


def _unknown_option(word: str, table: Mapping[str, Option]) -> str:
    bare, glued, value = word.partition("=")
    if glued and bare in table:
        return f"{word!r} glues a value to {bare}; write them apart: {bare} {value}"
    close: list[str] = []
    for name in nearest(word, table, count=2):
        together = "/".join(table[name].names)
        if together not in close:
            close.append(together)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"unknown option {word}{hint} (--help lists all; names are written in full, values apart)"


def format_help(
    usage: str, intro: str, options: Iterable[Option], defaults: Mapping[str, str], groups: Iterable[str]
) -> str:
    """The text of ``--help``: options by group, each with its default (by long name) where it has one."""
    listed = list(options)
    lines = [f"usage: {usage}", "", *textwrap.wrap(intro, WIDTH)]
    for group in groups:
        members = [option for option in listed if option.group == group]
        if not members:
            continue
        lines += ["", f"{group}:"]
        for option in members:
            lines += _help_lines(option, defaults.get(option.long, ""))
    return "\n".join(lines) + "\n"


def metavar(option: Option) -> str:
    """What stands for the option's values in help and documentation."""
    if option.kind == "switch":
        return ""
    if option.metavar:
        return option.metavar
    letter = {"int": "N", "float": "X", "bool": "BOOL", "text": "NAME"}[option.kind]
    return f"{letter} ..." if option.count == 0 else " ".join([letter] * option.count)


def help_text(option: Option) -> str:
    """The option's help with its choices."""
    return f"{option.help}: {', '.join(option.choices)}" if option.choices else option.help


def _help_lines(option: Option, default: str) -> list[str]:
    left = "  " + " ".join([", ".join(option.names), metavar(option)]).rstrip()
    text = help_text(option) + (f" (default: {default})" if default else "")
    wrapped = textwrap.wrap(text, WIDTH - 34, break_on_hyphens=False)
    if len(left) <= 32:
        return [f"{left:<34}{wrapped[0]}", *(" " * 34 + line for line in wrapped[1:])]
    return [left, *(" " * 34 + line for line in wrapped)]

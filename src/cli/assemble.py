"""From a command line and an environment to one :class:`Experiment`, with the origin of every value.

Flags win over ``--augment``, that over variables, those over ``--recipe``, that over the defaults.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..config.environment import Environment
from ..config.experiment import Experiment
from ..config.recipes import AUGMENT_PROFILES, get_recipe
from ..config.tasks import get_task, list_tasks
from .options_model import NO_FRAME_HEAD
from .parser import WIDTH, CommandLine, Given, UsageError

DEFAULT = "default"
_WARMUP = "lr_schedule.warmup_steps"
_JOIN = "\u00a0"
"""Stands for a space that must not break while lines are wrapped."""


@dataclass(frozen=True)
class Resolved:
    """An experiment and where each of its values came from."""

    experiment: Experiment
    origins: Mapping[str, str]
    """By dotted leaf; a leaf that is missing has its default."""
    flags: Mapping[str, Given]
    """By dotted leaf: the flag that set it."""

    def origin(self, leaf: str) -> str:
        """Where the value of ``leaf`` came from."""
        return self.origins.get(leaf, DEFAULT)


def leaves(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of a record of records, under its dotted name."""
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value


def replace_leaves(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """``experiment`` with other values at the dotted leaves of ``changes``, checked as a whole."""
    tree: dict[str, Any] = {}
    for leaf, value in (dict(leaves(experiment)) | dict(changes)).items():
        *path, name = leaf.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[name] = value
    return Experiment.from_dict(tree)


def resolve(exp_id: str, command: CommandLine, environment: Environment) -> Resolved:
    """The experiment that a command line and an environment describe.

    Raises:
        ValueError: for values that do not go together; the message names the flags.
    """
    changes: dict[str, Any] = {"exp_id": exp_id}
    origins: dict[str, str] = {"exp_id": "command line"}
    flags: dict[str, Given] = {}
    if command.has("--recipe"):
        name = str(command.get("--recipe", ""))
        recipe = get_recipe(name)
        changes.update(recipe)
        origins.update(dict.fromkeys(recipe, f"--recipe {name}"))
    changes.update(environment.settings)
    origins.update(environment.origins)
    if command.has("--augment"):
        given = command.given["--augment"]
        for field, value in AUGMENT_PROFILES[str(given.value)].items():
            _set(f"augmentation.{field}", value, given, changes, origins, flags)
    for given in command.given.values():
        for leaf, value in flag_values(given).items():
            _set(leaf, value, given, changes, origins, flags)
    if "lr_schedule.name" in flags and origins.get(_WARMUP, "").startswith("--recipe"):
        del changes[_WARMUP], origins[_WARMUP]  # a recipe's warm-up is that of the recipe's schedule
    experiment = replace_leaves(Experiment(), changes)
    _check_task(experiment)
    return Resolved(experiment, origins, flags)


def _check_task(experiment: Experiment) -> None:
    """The decoder must have as many channels as the task."""
    task = get_task(experiment.task)
    if task.channels and experiment.model.decoder_type == "t5":
        single = ", ".join(name for name in list_tasks() if not get_task(name).channels)
        raise ValueError(
            f"-tk {task.name} decodes {task.num_channels} channels and -dec t5 only one; tasks that fit "
            f"-dec t5: {single}"
        )


def flag_values(given: Given) -> dict[str, Any]:
    """The leaves an option sets, with their values."""
    option = given.option
    values: tuple[Any, ...] = given.values
    if option.long == "--frame-head" and NO_FRAME_HEAD in values:
        if values != (NO_FRAME_HEAD,):
            raise UsageError(f"{given.text}: {NO_FRAME_HEAD} stands alone")
        values = ()
    if option.count == 1:
        return dict.fromkeys(option.targets, values[0])
    if len(option.targets) == 1:
        return {option.targets[0]: values}
    return dict(zip(option.targets, values, strict=bool(option.targets)))


def _set(
    leaf: str,
    value: Any,
    given: Given,
    changes: dict[str, Any],
    origins: dict[str, str],
    flags: dict[str, Given],
) -> None:
    changes[leaf] = value
    origins[leaf] = given.text if given.option.long == "--augment" else given.name
    flags[leaf] = given


def show(value: Any) -> str:
    """A value as it is written on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return " ".join(show(item) for item in value)
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return "" if value is None else str(value)


def describe(resolved: Resolved) -> str:
    """The whole configuration as text, grouped by where the values come from."""
    groups: dict[str, list[str]] = {}
    for leaf, value in leaves(resolved.experiment):
        origin = resolved.origin(leaf)
        text = f"{leaf}={show(value) or '-'}"
        if leaf in resolved.flags or origin.startswith("AMT_"):
            text += f" ({origin})"
            origin = "flags" if leaf in resolved.flags else "variables"
        groups.setdefault(origin, []).append(text.replace(" ", _JOIN))
    lines = ["configuration:"]
    for origin in sorted(groups, key=lambda name: (name == DEFAULT, name)):
        body = "  ".join(groups[origin])
        lines.append(f"  from {origin}:" if origin != DEFAULT else "  defaults:")
        lines += textwrap.wrap(
            body,
            WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 4,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines).replace(_JOIN, " ")

"""From a command line and an environment to one :class:`Experiment`, with the origin of every value.

Flags (``--set`` among them) win over ``--augment``, that over variables, those over ``--config``, that over
``--model``, that over ``--recipe``, that over the defaults.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.environment import Environment
from ..config.experiment import Experiment
from ..config.leaves import leaves, replace_leaves
from ..config.model import DEFAULT as DEFAULT_KIND
from ..config.model import ENCODER_RECORDS, default_parts
from ..config.names import counted
from ..config.published_models import MODEL_LEAVES, get_published_model
from ..config.recipes import AUGMENT_PROFILES, get_recipe
from .config_file import read_assignment, read_config
from .options_model import NO_FRAME_HEAD
from .parser import WIDTH, CommandLine, Given, Option, UsageError

DEFAULT = "default"
CHECKPOINT = "the checkpoint"
"""Origin of the values that a resumed run keeps."""
_NAMED = ("--recipe", "--model")
"""Options that stand for many values at once, which have a name of their own."""
_SCHEDULE = "lr_schedule.name"
_WARMUP = "lr_schedule.warmup_steps"
_ENCODER = "model.encoder_type"
_DECODER = "model.decoder_type"
_PROJECTION = "model.pre_decoder_type"
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
    bundle: Mapping[str, Any] = field(default_factory=dict)
    """By dotted leaf: what recipe and published model say, whatever holds in the end."""

    def origin(self, leaf: str) -> str:
        """Where the value of ``leaf`` came from."""
        return self.origins.get(leaf, DEFAULT)


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
    if command.has("--model"):
        name = str(command.get("--model", ""))
        for leaf in [leaf for leaf in changes if leaf.startswith(MODEL_LEAVES)]:
            del changes[leaf], origins[leaf]  # a recipe's network and a published one do not mix
        row = get_published_model(name)
        changes.update(row)
        origins.update(dict.fromkeys(row, f"--model {name}"))
    bundle = dict(changes)
    for path in command.given["--config"].values if command.has("--config") else ():
        for leaf, item in read_config(Path(str(path))).items():
            if leaf != "exp_id":  # the name on the command line holds
                changes[leaf], origins[leaf] = item.value, f"--config {item.file}"
    changes.update(environment.settings)
    origins.update(environment.origins)
    if command.has("--augment"):
        given = command.given["--augment"]
        for key, value in AUGMENT_PROFILES[str(given.value)].items():
            _set(f"augmentation.{key}", value, given, changes, origins, flags)
    encoder = str(changes.get(_ENCODER, Experiment().model.encoder_type))
    for given in command.given.values():
        if given.option.long in ("--encoder-type", "--set"):
            encoder = str(flag_values(given, encoder).get(_ENCODER, encoder))
    for given in command.given.values():
        for leaf, value in flag_values(given, encoder).items():
            _check_encoder(leaf, given, encoder)
            _set(leaf, value, given, changes, origins, flags)
    _drop_recipes_details(changes, origins, flags)
    experiment = replace_leaves(Experiment(), _fill_kinds(changes))
    return Resolved(experiment, origins, flags, bundle)


def _drop_recipes_details(
    changes: dict[str, Any], origins: dict[str, str], flags: Mapping[str, Given]
) -> None:
    """A recipe's warm-up is that of its schedule, its projection that of its encoder and decoder; its moment
    decays are no business of Adafactor."""

    def from_recipe(leaf: str) -> bool:
        return origins.get(leaf, "").startswith("--recipe")

    other_schedule = _SCHEDULE in flags or (_SCHEDULE in changes and not from_recipe(_SCHEDULE))
    if other_schedule and from_recipe(_WARMUP):
        del changes[_WARMUP], origins[_WARMUP]
    if from_recipe(_PROJECTION) and not (from_recipe(_ENCODER) and from_recipe(_DECODER)):
        del changes[_PROJECTION], origins[_PROJECTION]
    if changes.get("optimizer.name") == "Adafactor" and from_recipe("optimizer.betas"):
        del changes["optimizer.betas"], origins["optimizer.betas"]


def _fill_kinds(changes: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` with the pre-encoder and projection that go with encoder and decoder, where they leave it
    open; the word ``default`` leaves it open."""
    said = {
        leaf: value
        for leaf, value in changes.items()
        if not (leaf.startswith("model.") and value == DEFAULT_KIND)
    }
    model = Experiment().model
    pre_encoder, pre_decoder = default_parts(
        str(said.get(_ENCODER, model.encoder_type)), str(said.get(_DECODER, model.decoder_type))
    )
    return {"model.pre_encoder.type": pre_encoder, _PROJECTION: pre_decoder} | said


def _check_encoder(leaf: str, given: Given, encoder: str) -> None:
    """No flag says something about another encoder than the chosen one."""
    for kind, record in ENCODER_RECORDS.items():
        if record != ENCODER_RECORDS[encoder] and leaf.startswith(f"model.{record}."):
            raise UsageError(
                f"{given.name} is a number of -enc {kind} and does nothing with -enc {encoder}; leave it "
                f"out, or add -enc {kind}"
            )


def option_targets(option: Option, encoder: str) -> tuple[str, ...]:
    """The leaves an option sets when ``encoder`` is chosen."""
    if not option.by_encoder:
        return option.targets
    return tuple(leaf for leaf in option.targets if leaf.startswith(f"model.{ENCODER_RECORDS[encoder]}."))


def flag_values(given: Given, encoder: str) -> dict[str, Any]:
    """The leaves an option sets when ``encoder`` is chosen, with their values."""
    option = given.option
    values: tuple[Any, ...] = given.values
    if option.long == "--set":
        return dict(read_assignment(str(value)) for value in values)
    targets = option_targets(option, encoder)
    if option.targets and not targets:
        others = [kind for kind in ENCODER_RECORDS if option_targets(option, kind)]
        raise UsageError(
            f"{given.name} does nothing with -enc {encoder}, only with {' and '.join(others)}; leave it out"
        )
    if option.long == "--frame-head" and NO_FRAME_HEAD in values:
        if values != (NO_FRAME_HEAD,):
            raise UsageError(f"{given.text}: {NO_FRAME_HEAD} stands alone")
        values = ()
    if option.count == 1:
        return dict.fromkeys(targets, values[0])
    if len(targets) == 1:
        return {targets[0]: values}
    return dict(zip(targets, values, strict=bool(targets)))


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


def same_value(one: object, other: object) -> bool:
    """Whether two values of a leaf are equal, one of them perhaps read from JSON."""
    lists = (tuple, list)
    if isinstance(one, lists) and isinstance(other, lists):
        return tuple(one) == tuple(other)
    return one == other


def summarize(resolved: Resolved) -> str:
    """The configuration in a few lines: the bundles it rests on, and the values that differ from those.

    Of a resumed run nothing is listed: :func:`~.precedence.resume` says what differs.
    """
    count, changed = 0, 0
    own: dict[str, list[str]] = {}
    bases: dict[str, None] = {}
    below = dict(leaves(Experiment())) | dict(resolved.bundle)
    for leaf, value in leaves(resolved.experiment):
        count += 1
        origin = resolved.origin(leaf)
        if origin == CHECKPOINT or origin.startswith(_NAMED):
            bases[origin] = None
        elif origin != DEFAULT and leaf != "exp_id" and not same_value(value, below[leaf]):
            of_file = origin.startswith("--config")  # its name is long and said once
            own.setdefault(origin if of_file else "", []).append(
                _entry(leaf, value, "" if of_file else origin)
            )
            changed += 1
    if CHECKPOINT in bases:
        return f"configuration: {CHECKPOINT}'s; all {count} values with --print-config"
    head = f"configuration: {' and '.join(bases) or 'the defaults'}"
    if changed:
        head += f", {counted(changed, 'value')} set otherwise"
    lines = [f"{head}; all {count} values with --print-config"]
    for origin, entries in own.items():
        lines += [f"  {origin}:", *_wrapped(entries, indent=4)] if origin else _wrapped(entries, indent=2)
    return "\n".join(lines).replace(_JOIN, " ")


def _entry(leaf: str, value: Any, origin: str) -> str:
    """A value with its name, and where it is from unless that is said elsewhere; does not break."""
    text = f"{leaf}={show(value) or '-'}"
    return (text + f" ({origin})" if origin else text).replace(" ", _JOIN)


def _wrapped(entries: Iterable[str], indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        "  ".join(entries),
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def describe(resolved: Resolved) -> str:
    """The whole configuration as text, grouped by where the values come from."""
    groups: dict[str, list[str]] = {}
    for leaf, value in leaves(resolved.experiment):
        origin = resolved.origin(leaf)
        said = ""
        if leaf in resolved.flags or origin.startswith("AMT_"):
            said, origin = origin, "flags" if leaf in resolved.flags else "variables"
        groups.setdefault(origin, []).append(_entry(leaf, value, said))
    lines = ["configuration:"]
    for origin in sorted(groups, key=lambda name: (name == DEFAULT, name)):
        lines.append(f"  from {origin}:" if origin != DEFAULT else "  defaults:")
        lines += _wrapped(groups[origin], indent=4)
    return "\n".join(lines).replace(_JOIN, " ")

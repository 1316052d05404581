"""Configuration files: ``--config run.yaml``, YAML or JSON, and ``--set group.key=value``.

A file holds the groups of :class:`Experiment`, in capitals or small letters, any depth of them, or is the
``config.json`` of a run or the JSON file beside a converted checkpoint. ``bases`` names files it builds on,
relative to itself; what it says itself wins.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config.experiment import FORMAT, Experiment, convert
from ..config.names import named_path, nearest
from ..config.values import looks_like_number, read_value
from .parser import UsageError

BASES = "bases"
"""Key of the files that a file builds on."""
_NOT_SETTINGS = ("format", "origins")
"""Keys of a run's ``config.json`` that are no settings."""
_FACTS = ("file", "step", "epoch", "size", "crc", "licence", "source")
"""Keys beside ``experiment`` in the JSON file of a converted checkpoint."""


@dataclasses.dataclass(frozen=True)
class FileValue:
    """One value of a configuration file."""

    value: Any
    file: str
    """The file it stands in, as it was named."""


def read_config(path: Path) -> dict[str, FileValue]:
    """The leaves of :class:`Experiment` that a configuration file sets, those of its bases included.

    Raises:
        ValueError: for a file that is missing, is no YAML, builds on itself, or has an unknown key or a value
            of the wrong kind; the message names the file and the key.
    """
    return _read(path, ())


def read_assignment(text: str) -> tuple[str, Any]:
    """Leaf and value of ``group.key=value``: words as they are written unless quoted, all else as in YAML;
    lists may also be parted by commas.

    Raises:
        UsageError: for something else, an unknown key, or a value of the wrong kind.
    """
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set expects group.key=value, for example trainer.max_steps=100, not {text!r}")
    leaf = _leaf(key.strip(), "--set")
    if leaf == "exp_id":
        raise UsageError("--set exp_id: the experiment's name goes first, without an option")
    plain = kinds()[leaf] is str and not written.startswith(("'", '"'))
    return leaf, _fit(leaf, written if plain else _parse(written, f"--set {key}"), f"--set {key}")


@functools.cache
def kinds() -> Mapping[str, Any]:
    """The type of every leaf of :class:`Experiment`."""
    return types.MappingProxyType(dict(_kinds(Experiment, "")))


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, FileValue]:
    place = named_path(str(path)).absolute()
    if place in above:
        raise ValueError(f"{path}: the file builds on itself ({BASES}); take one of the {BASES} out")
    try:
        text = place.read_text(encoding="utf-8-sig")
    except OSError as error:
        came = f", named in {BASES} of {above[-1]}" if above else ""
        raise ValueError(
            f"the configuration file {path}{came} cannot be read: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text (UTF-8), so no configuration file") from None
    plain = _parse(text, str(path))
    if plain is None:
        plain = {}
    if not isinstance(plain, dict):
        raise ValueError(f"{path} must hold keys and values, such as 'trainer: {{max_steps: 100}}'")
    if isinstance(plain.get("experiment"), dict):
        others = {key: plain[key] for key in plain if key not in ("experiment", *_FACTS)}
        plain = others | plain["experiment"]
    version = str(plain.get("format", FORMAT))
    if not version.isdecimal() or int(version) > FORMAT:
        raise ValueError(f"{path} has format {version}; this version reads up to {FORMAT}: update amt")
    bases = plain.pop(BASES, [])
    if isinstance(bases, str):
        bases = [bases]
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise ValueError(f"{path}: {BASES} must be a list of files, not {bases!r}")
    values: dict[str, FileValue] = {}
    for base in bases:
        named = named_path(base)
        values |= _read(named if named.is_absolute() else place.parent / named, (*above, place))
    own = {key: value for key, value in plain.items() if key not in _NOT_SETTINGS}
    for leaf, value in _flatten(own, "", str(path)).items():
        values[leaf] = FileValue(_fit(leaf, value, f"{path}: {leaf}"), str(path))
    return values


def _parse(text: str, where: str) -> Any:
    """The YAML ``text`` with every value as it is written: its kind is that of the leaf, so that ``off`` is a
    word where words are expected, 1e-4 a number where numbers are, and 1:30 never ninety."""
    import yaml  # not needed for --help

    loader_class: Any = type("Loader", (yaml.SafeLoader,), {})

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{where}, line {line}: a key is a word, not a list or a group")
            if key.value in seen:
                raise ValueError(
                    f"{where}, line {line}: {key.value!r} stands in line {seen[key.value]} already; keep one"
                )
            seen[key.value] = line
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    loader_class.add_constructor("tag:yaml.org,2002:map", mapping)
    for kind in ("bool", "int", "float", "timestamp"):
        loader_class.add_constructor(f"tag:yaml.org,2002:{kind}", lambda _, node: node.value)
    try:
        return yaml.load(text, loader_class)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{where}{line}: this is no YAML ({error.problem or error.context})") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{where}: this is no YAML ({error})") from None
    except RecursionError:
        raise ValueError(
            f"{where}: this is no configuration, its brackets are too many levels deep"
        ) from None


def _flatten(plain: Mapping[Any, Any], prefix: str, where: str) -> dict[str, Any]:
    """Values by leaf; a leaf named in two ways, such as ``trainer`` and ``TRAINER``, is refused."""
    values: dict[str, Any] = {}
    known = kinds()
    for key, value in plain.items():
        name = prefix + str(key)
        lowered = _small(name)
        if isinstance(value, dict) and lowered not in known:
            if not _members(lowered):
                raise _unknown(name, where)
            found = _flatten(value, f"{name}.", where)
        elif value is None and _members(lowered):
            continue  # a group whose lines are all commented out
        else:
            found = {_leaf(name, where): value}
        if twice := sorted(set(found) & set(values)):
            raise ValueError(f"{where}: {twice[0]} stands there twice; keep one")
        values |= found
    return values


def _leaf(name: str, where: str) -> str:
    """The leaf of that name; groups may be in capitals."""
    lowered = _small(name)
    if lowered in kinds():
        return lowered
    if members := _members(lowered):
        raise ValueError(f"{where}: {name} is a group; name one of its keys, such as {members[0]}")
    raise _unknown(name, where)


def _members(group: str) -> list[str]:
    """The leaves of a group; none when there is no such group."""
    return [leaf for leaf in kinds() if leaf.startswith(f"{group}.")]


def _unknown(name: str, where: str) -> ValueError:
    """An unknown key: the near ones by whole name, else by the last part of it."""
    groups = {leaf.rpartition(".")[0] for leaf in kinds() if "." in leaf}
    close = nearest(name, {*kinds(), *groups})
    if not close:
        parts = {leaf.rpartition(".")[2]: leaf for leaf in kinds()}
        close = [parts[part] for part in nearest(name.rpartition(".")[2], parts)]
    hint = (
        f"did you mean {' or '.join(repr(item) for item in close)}?" if close else "--print-config lists all"
    )
    return ValueError(f"unknown key {name!r} in {where}; {hint}")


def _small(name: str) -> str:
    return ".".join(part.lower() if part.isupper() else part for part in name.split("."))


def _kinds(record: type[Any], prefix: str) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(record)
    found: list[tuple[str, Any]] = []
    for item in dataclasses.fields(record):
        hint = hints[item.name]
        if dataclasses.is_dataclass(hint):
            found += _kinds(typing.cast("type[Any]", hint), f"{prefix}{item.name}.")
        else:
            found.append((prefix + item.name, hint))
    return found


def _fit(leaf: str, value: Any, where: str) -> Any:
    """``value``, of :func:`_parse`, as the leaf's type."""
    hint = kinds()[leaf]
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")] if value.strip() else []
        elif value is None:
            value = []
    return convert(hint, value, where, _scalar)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    kind = {bool: "bool", int: "int", float: "float", str: "text"}[hint]
    if not isinstance(value, str):
        what = {"bool": "true or false", "int": "a whole number", "float": "a number", "text": "text"}[kind]
        raise ValueError(f"{where} expects {what}, not {'nothing' if value is None else repr(value)}")
    if hint is int and looks_like_number(value) and float(value).is_integer() and not value.isdecimal():
        return int(float(value))  # 1e3 and 4.0 too
    try:
        return read_value(kind, value)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None

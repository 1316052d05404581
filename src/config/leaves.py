"""Plain values of a record of records under dotted names, such as ``model.encoder.num_latents``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from .experiment import Experiment


def leaves(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of a record of records, under its dotted name."""
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value


def replace_leaves(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """``experiment`` with other values at the dotted leaves of ``changes``, checked as a whole.

    Raises:
        ValueError: for an unknown leaf, a value of the wrong kind, or values that do not go together.
    """
    tree: dict[str, Any] = {}
    for leaf, value in (dict(leaves(experiment)) | dict(changes)).items():
        *path, name = leaf.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[name] = value
    return Experiment.from_dict(tree)

"""What holds on resume: the checkpoint's values or the command line's.

Model, tokens and data come from the checkpoint, and a flag that contradicts them is an error. Optimizer
and schedule come from the checkpoint too, with a word when the command line says otherwise, unless
``--override-optim`` asks for those of the command line. Everything else (steps, validation interval, batch
sizes, loading, logging, hardware, augmentation, objective) follows flags and variables where they say
something, and the checkpoint where they do not. A recipe is a bundle of defaults and changes nothing of a
run that exists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..config.experiment import Experiment
from ..config.leaves import leaves, replace_leaves
from ..config.model import DEFAULT as DEFAULT_KIND
from ..config.published_models import get_published_model
from ..model.checkpoint_header import read_header
from .assemble import CHECKPOINT, Resolved, flag_values, same_value, show
from .config_file import read_config
from .parser import Given, UsageError

FIXED = ("task", "event_length", "audio.", "model.", "data.presets")
"""Leaves, or beginnings of leaves, that a resumed run cannot change."""
KEPT = ("seed", "init_", "pretrained_t5")
"""Those that stay as they were, whatever the command line says."""
BUNDLES = ("--config", "--model")
"""Options that settle many values at once and bind like flags."""
OPTIMISATION = ("optimizer.", "lr_schedule.")
"""Those that stay as they were unless ``--override-optim`` is given."""
RULES = (
    "model, tokens, choice of data: the checkpoint's; a flag or file that contradicts them is an error",
    "optimizer, schedule, --freeze, --ema: the checkpoint's, unless --override-optim; the seed always",
    "steps, intervals, batches, workers, logging and the rest: flags and variables, else the checkpoint's",
)
"""Who wins, as it is printed."""
IDENTITY = ("exp_id", "project")
"""Those that say where the run lies, which may have been moved."""


def stored_experiment(checkpoint: Path) -> Experiment | None:
    """The configuration inside a checkpoint file; None when the file holds none.

    Raises:
        ValueError: when it is there and this version cannot read it.
    """
    header = read_header(checkpoint)
    if header is None or not header.experiment:
        return None
    try:
        return Experiment.from_json(header.experiment)
    except (ValueError, json.JSONDecodeError) as error:
        raise ValueError(f"the configuration in {checkpoint} cannot be read: {error}") from error


def said(item: Given, encoder: str) -> Mapping[str, Any]:
    """The leaves a flag says something about when ``encoder`` is chosen, those of ``--model`` and of
    ``--config`` files included, with their values."""
    if item.option.long == "--model":
        return get_published_model(str(item.value))
    if item.option.long == "--config":
        files = (read_config(Path(str(path))) for path in item.values)
        return {leaf: found.value for file in files for leaf, found in file.items()}
    return flag_values(item, encoder)


def contradictions(stored: Experiment, given: Iterable[Given], fixed: tuple[str, ...] = FIXED) -> list[str]:
    """A phrase for each flag that says otherwise than ``stored`` about leaves that begin with ``fixed``."""
    old = dict(leaves(stored))
    phrases = []
    for item in given:
        for leaf, value in said(item, stored.model.encoder_type).items():
            if leaf.startswith(fixed) and value != DEFAULT_KIND and not same_value(value, old[leaf]):
                key = f"{leaf}=" if leaf not in item.option.targets else ""
                phrases.append(f"{item.name} {key}{show(value)}, the checkpoint has {show(old[leaf])}")
    return phrases


def resume(
    stored: Experiment, resolved: Resolved, *, override_optim: bool = False
) -> tuple[Resolved, list[str]]:
    """The experiment of a resumed run, and one sentence for each difference that was settled.

    Args:
        stored: the checkpoint's experiment.
        resolved: the command line's.
        override_optim: optimizer and schedule follow the command line where it says something.

    Raises:
        UsageError: when a flag contradicts the checkpoint about model, tokens or data.
    """
    old = dict(leaves(stored))
    new_values = dict(leaves(resolved.experiment))
    wrong = contradictions(stored, dict.fromkeys(resolved.flags.values()))
    wrong += [
        f"{leaf} {show(new_values[leaf])} of {origin}, the checkpoint has {show(old[leaf])}"
        for leaf, origin in resolved.origins.items()
        if origin.startswith(BUNDLES)
        and leaf.startswith(FIXED)
        and not same_value(new_values[leaf], old[leaf])
    ]
    if wrong:
        raise UsageError(
            f"a resumed run keeps its model, tokens and data: {'; '.join(wrong)}. Leave these out, or "
            "start another experiment"
        )
    kept = (*FIXED, *KEPT, *(() if override_optim else OPTIMISATION))
    changes: dict[str, object] = {}
    origins = dict.fromkeys(old, CHECKPOINT)
    sentences: list[str] = []
    for leaf, value in new_values.items():
        origin = resolved.origins.get(leaf)
        if leaf in IDENTITY:
            changes[leaf] = value
            if origin:
                origins[leaf] = origin
            continue
        if origin is None or same_value(value, old[leaf]):
            continue
        was, new = show(old[leaf]) or "-", show(value) or "-"
        recipe = origin.startswith("--recipe")
        if leaf.startswith(kept) or recipe:
            wanted = leaf.startswith(OPTIMISATION) and not recipe
            way_out = "; --override-optim takes the new one" if wanted else ""
            sentences.append(f"{leaf}: the checkpoint's {was} holds, not {new} ({origin}){way_out}")
        else:
            changes[leaf] = value
            origins[leaf] = origin
            sentences.append(f"{leaf}: {new} ({origin}) holds, not the checkpoint's {was}")
    flags = {leaf: given for leaf, given in resolved.flags.items() if origins[leaf] == resolved.origins[leaf]}
    return Resolved(replace_leaves(stored, changes), origins, flags), sentences

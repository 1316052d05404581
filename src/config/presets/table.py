"""The preset tables, and how a name on the command line becomes data sets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..names import did_you_mean, nearest
from . import drums, mixtures, pitched, private, quickstart, singing, yourmt3_mixes
from .records import EvaluationSet, MultiPreset, SinglePreset

_SINGLE = (quickstart, mixtures, pitched, drums, singing, private)
_MULTI = (quickstart, yourmt3_mixes, private)

SINGLE_PRESETS: dict[str, SinglePreset] = {p.name: p for family in _SINGLE for p in family.SINGLE}
"""Name to single preset."""
MULTI_PRESETS: dict[str, MultiPreset] = {p.name: p for family in _MULTI for p in family.MULTI}
"""Name to multi preset."""


_NEAR = 5
"""Most near names that an error offers."""


def list_presets() -> list[str]:
    """Names of all presets of both tables, sorted."""
    return sorted({*SINGLE_PRESETS, *MULTI_PRESETS})


def list_stores(data_home: Path | None) -> list[str]:
    """Names of the stores that are prepared in a data folder, sorted."""
    if data_home is None or not data_home.is_dir():
        return []
    return sorted(item.parent.name for item in data_home.glob("*/store.json"))


def add_preset(preset: SinglePreset | MultiPreset) -> None:
    """Make a data preset of a script known in this process, under its name (flag ``-d``).

    The members of a multi preset may also be names of prepared stores. Whatever goes on with the run, or
    scores it by the preset's name, has to add it as well; a preset to keep is a row of its family's file.

    Raises:
        ValueError: another preset has that name.
    """
    known = MULTI_PRESETS.get(preset.name) or SINGLE_PRESETS.get(preset.name) or preset
    if known != preset:
        raise ValueError(
            f"there is a data preset {preset.name!r} already and it is another one; choose another name"
        )
    if isinstance(preset, MultiPreset):
        MULTI_PRESETS[preset.name] = preset
    else:
        SINGLE_PRESETS[preset.name] = preset


def get_preset(name: str, data_home: Path | None = None) -> SinglePreset | MultiPreset:
    """The preset of that name.

    A name that stands in no table but is a prepared store inside ``data_home`` is a preset of itself: splits
    ``train``, ``validation`` and ``test`` play their parts, as far as they hold songs.

    Raises:
        ValueError: for an unknown name; the message names the near ones and the prepared stores.
    """
    if name in MULTI_PRESETS:
        return MULTI_PRESETS[name]
    if name in SINGLE_PRESETS:
        return SINGLE_PRESETS[name]
    if data_home is not None:
        preset = _store_preset(name, data_home)
        if preset is not None:
            return preset
    stores = list_stores(data_home)
    close = nearest(name, {*list_presets(), *stores}, count=_NEAR)
    hint = f"{did_you_mean(close)} " if close else ""
    if data_home is not None:
        hint += f"in {data_home} there is {', '.join(stores) or 'no data set'}; "
    if Path(name).is_dir() and not (Path(name) / "store.json").exists():
        hint = f"it is a folder: amt-prepare folder {shlex.quote(name)} --name NAME makes a data set of it; "
    raise ValueError(
        f"unknown data preset or prepared store {name!r}; {hint}amt-prepare list shows all names"
    )


def combine_presets(names: Sequence[str], data_home: Path | None = None) -> MultiPreset:
    """All presets of a run (flag ``-d``) as one multi preset.

    A multi preset brings its members with its own weights; a single one has weight 1. Several multi presets
    keep their weights as they stand, and a member of several of them has the sum of its weights.
    """
    if not names:
        raise ValueError("-d needs at least one data preset")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"-d {' '.join(names)}: data preset {name!r} occurs twice")
    members: dict[str, tuple[float, str | None, str | None, int]] = {}
    for name in names:
        found = get_preset(name, data_home)
        if isinstance(found, SinglePreset):
            found = MultiPreset(found.name, (found.name,), (1.0,), (found.eval_vocab,))
        rows = zip(
            found.weights, found.eval_vocab, found.eval_drum_vocab, found.validation_files, strict=True
        )
        for member, (weight, vocab, hits, files) in zip(found.presets, rows, strict=True):
            first = members.get(member, (0.0, vocab, hits, files))
            members[member] = (first[0] + weight, *first[1:])
    weights, vocabs, drum_vocabs, limits = zip(*members.values(), strict=True)
    return MultiPreset("+".join(names), tuple(members), weights, vocabs, drum_vocabs, limits)


def apply_excluded_presets(preset: MultiPreset, excluded: Sequence[str]) -> MultiPreset:
    """``preset`` without the excluded ones (``AMT_EXCLUDE_PRESETS``).

    Presets, weights, evaluation vocabularies and limits are filtered together.

    Raises:
        ValueError: when an excluded name is no preset at all, or when nothing remains.
    """
    for name in excluded:
        if name not in preset.presets and name not in SINGLE_PRESETS:
            close = nearest(name, {*preset.presets, *SINGLE_PRESETS}, count=_NEAR)
            hint = f"{did_you_mean(close)} " if close else ""
            raise ValueError(
                f"unknown data preset in AMT_EXCLUDE_PRESETS {name!r}; {hint}this run has "
                f"{', '.join(preset.presets)}"
            )
    kept = [i for i, name in enumerate(preset.presets) if name not in excluded]
    if not kept:
        raise ValueError(
            f"AMT_EXCLUDE_PRESETS={','.join(excluded)} leaves no data preset of {preset.name}; exclude fewer"
        )
    return preset.only(kept)


def get_single_preset(name: str, data_home: Path | None = None) -> SinglePreset:
    """As :func:`get_preset`, for a member of a multi preset."""
    preset = get_preset(name, data_home)
    if isinstance(preset, MultiPreset):
        raise ValueError(f"data preset {name!r} is a multi preset; a multi preset holds single ones only")
    return preset


def _store_preset(name: str, data_home: Path) -> SinglePreset | None:
    file = data_home / name / "store.json"
    if Path(name).name != name or not file.is_file():
        return None
    try:
        header = json.loads(file.read_text(encoding="utf-8-sig"))
        splits = {split for split, facts in header["splits"].items() if facts["songs"] > 0}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The store itself says what is wrong when it is opened.
        splits = {"train"}

    def sets(split: str) -> tuple[EvaluationSet, ...]:
        return (EvaluationSet(name, split),) if split in splits else ()

    train = ("train",) if "train" in splits else ()
    if not (train or sets("validation") or sets("test")):
        raise ValueError(
            f"{file}: none of the splits train, validation and test holds a song; it has "
            f"{', '.join(sorted(splits)) or 'none'}"
        )
    return SinglePreset(name, name, train, sets("validation"), sets("test"))

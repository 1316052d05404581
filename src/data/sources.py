"""From preset names to opened stores; everything that is missing is said at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..config.names import counted
from ..config.presets import (
    EvaluationSet,
    SinglePreset,
    apply_excluded_presets,
    combine_presets,
    get_single_preset,
    list_presets,
)
from .scored import ScoredSet
from .segments import TrainingSet
from .store import SongStore, StoreError
from .store_files import file_problems


@dataclass(frozen=True)
class RunData:
    """The data sets of a run."""

    training: tuple[TrainingSet, ...]
    validation: tuple[ScoredSet, ...]
    test: tuple[ScoredSet, ...]
    idle: tuple[str, ...] = ()
    """Stores of one's own without a song to train on or to validate with."""


def open_presets(
    names: Sequence[str],
    data_home: Path,
    *,
    sample_rate: int = 16000,
    excluded: Sequence[str] = (),
    check_files: bool = True,
) -> RunData:
    """Open the stores of the presets ``names`` (flag ``-d``) in ``data_home``.

    Args:
        names: presets or prepared stores.
        data_home: folder of the stores.
        sample_rate: the rate the stores must have.
        excluded: presets left out.
        check_files: see that the files of all songs are there and as long as the index says.

    Raises:
        ValueError: for an unknown name, and one message for all stores that are missing or broken, with the
            commands that build them, and all files of songs that are.
    """
    data_home = Path(data_home)
    mix = apply_excluded_presets(combine_presets(names, data_home), excluded)
    presets = [get_single_preset(name, data_home) for name in mix.presets]
    stores = _open_stores(presets, data_home, sample_rate)
    training: list[TrainingSet] = []
    validation: list[ScoredSet] = []
    test: list[ScoredSet] = []
    problems: list[str] = []
    used: list[tuple[SongStore, str]] = []
    rows = zip(mix.weights, mix.eval_vocab, mix.eval_drum_vocab, mix.validation_files, strict=True)
    for preset, (weight, vocab, drums, files) in zip(presets, rows, strict=True):
        store = stores[preset.store]
        wanted = {*preset.train, *(item.split for item in (*preset.validation, *preset.test))}
        missing = sorted(wanted - set(store.splits))
        if missing:
            problems.append(
                f"store {store.path} has no split {', '.join(missing)}, which preset {preset.name} uses; "
                f"it has {', '.join(store.splits)}. Build it again: {preset.prepare_command}"
            )
            continue
        used += [(store, split) for split in sorted(wanted)]
        if preset.train and weight > 0:
            if not sum(store.splits[split] for split in preset.train):
                problems.append(
                    f"{store.path}: split {', '.join(preset.train)} (preset {preset.name}) has no songs"
                )
            training.append(TrainingSet(preset.name, store, preset.train, weight))
        scored = ScoredSet(
            "",
            store,
            "",
            vocab or preset.eval_vocab,
            drums or preset.eval_drum_vocab,
            preset.octave_free,
        )
        _add_sets(validation, preset.validation, replace(scored, max_songs=files))
        _add_sets(test, preset.test, scored)
    if check_files:
        problems += file_problems(used)
    if problems:
        raise ValueError("\n".join(problems))
    own = [preset for preset in presets if preset.name not in list_presets()]  # others may be for tests alone
    idle = tuple(preset.name for preset in own if not (preset.train or preset.validation))
    return RunData(tuple(training), tuple(validation), tuple(test), idle)


def open_scored_sets(
    names: Sequence[str],
    data_home: Path,
    split: str = "test",
    *,
    sample_rate: int | None = None,
    excluded: Sequence[str] = (),
) -> tuple[ScoredSet, ...]:
    """The sets of presets that are scored apart from training; the other splits need not be there.

    Files of songs are not looked at: scoring names a song that is broken and goes on with the others.

    Args:
        names: presets (flag ``-d``) or prepared stores.
        data_home: folder of the stores.
        split: ``test``, ``validation`` or ``train`` for what the presets take as such, or the name of a split
            of the stores.
        sample_rate: the rate the stores must have; None takes any.
        excluded: presets left out.

    Raises:
        ValueError: for an unknown name, a preset without such a set, and one message for all stores that are
            missing or broken, with the commands that build them.
    """
    data_home = Path(data_home)
    mix = apply_excluded_presets(combine_presets(names, data_home), excluded)
    presets = [get_single_preset(name, data_home) for name in mix.presets]
    stores = _open_stores(presets, data_home, sample_rate)
    found: list[ScoredSet] = []
    problems: list[str] = []
    for preset, vocab, drums in zip(presets, mix.eval_vocab, mix.eval_drum_vocab, strict=True):
        store = stores[preset.store]
        wanted = _sets_of(preset, split)
        if not wanted:
            problems.append(f"preset {preset.name} has no {split} set; {_choice_text(preset, store)}")
        for missing in [item.split for item in wanted if item.split not in store.splits]:
            problems.append(
                f"store {store.path} has no split {missing} (preset {preset.name}, --split {split}); "
                f"it has {', '.join(store.splits)}"
            )
        like = ScoredSet(
            "", store, "", vocab or preset.eval_vocab, drums or preset.eval_drum_vocab, preset.octave_free
        )
        _add_sets(found, wanted, like)
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(found)


def _sets_of(preset: SinglePreset, split: str) -> tuple[EvaluationSet, ...]:
    if split == "test":
        return preset.test
    if split == "validation":
        return preset.validation
    names = preset.train if split == "train" else (split,)
    return tuple(EvaluationSet(f"{preset.store}_{name}", name) for name in names)


def _choice_text(preset: SinglePreset, store: SongStore) -> str:
    """What ``--split`` may name and has songs."""
    songs = {
        name: sum(store.splits.get(item.split, 0) for item in _sets_of(preset, name))
        for name in dict.fromkeys(("test", "validation", "train", *store.splits))
    }
    there = [f"{name} ({counted(count, 'song')})" for name, count in songs.items() if count]
    return f"--split can be {', '.join(there)}" if there else f"no split of {store.path} has songs"


def _open_stores(
    presets: Sequence[SinglePreset], data_home: Path, sample_rate: int | None
) -> dict[str, SongStore]:
    stores: dict[str, SongStore] = {}
    absent: list[str] = []
    broken: list[str] = []
    for preset in presets:
        if preset.store in stores:
            continue
        path = data_home / preset.store
        if not (path / "store.json").is_file():
            line = f"  {path}  (preset {preset.name}): {preset.prepare_command}"
            if line not in absent:
                absent.append(line)
            continue
        try:
            store = SongStore.open(path)
        except StoreError as error:
            broken.append(str(error))
            continue
        if sample_rate is not None and store.sample_rate != sample_rate:
            broken.append(
                f"{path}: has {store.sample_rate} Hz, the run uses {sample_rate} Hz; prepare it again"
            )
        stores[preset.store] = store
    if absent:
        broken.insert(
            0, "these data sets are not prepared; the command that builds each:\n" + "\n".join(absent)
        )
    if broken:
        raise ValueError("\n".join(broken))
    return stores


def _add_sets(found: list[ScoredSet], wanted: Sequence[EvaluationSet], like: ScoredSet) -> None:
    """Add evaluation sets; one that is there already is not scored twice, names stay unique."""
    for item in wanted:
        if any(other.store.path == like.store.path and other.split == item.split for other in found):
            continue
        name = item.name
        if any(other.name == name for other in found):
            name = f"{like.store.name}_{item.split}"
        found.append(replace(like, name=name, split=item.split))

"""What spoils training in prepared data: found, named by song, each kind with a way out."""

from __future__ import annotations

import multiprocessing
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config.names import counted
from ..config.vocabularies import named_programs
from ..data.classes import class_remarks
from ..data.segments import TrainingSet
from ..data.shares import store_way_out
from ..data.sources import open_presets
from ..data.store import SongStore
from ..tokenizer import NoteTokenizer
from .building import default_processes
from .check_song import SongFacts, look_at
from .fingerprints import same_notes, same_sound

CLIPPED_SHARE = 1e-3
SILENT_NOTES_SHARE = 0.05
OUT_OF_RANGE_SHARE = 0.02
SILENT_PEAK_DB = -60.0
SONG_SHIFT_MS = 40.0
"""A song whose labels are further off is named."""
MEDIAN_SHIFT_MS = 20.0
"""A data set whose songs are further off by the median is named."""
MIN_SHIFTED_SONGS = 3
_SEGMENT_SAMPLES = 32767
_NEEDED_SPLITS = ("train", "validation")

WAYS_OUT = {
    "unreadable": "prepare the data set again",
    "no sound": "leave the song out, or prepare it from a file that holds sound",
    "silent": "leave the song out, or prepare it from a file that holds sound",
    "clipped": "take a recording that is not overdriven; a little clipping does no harm, this is more",
    "overloaded": "lower all stems of the song by the same factor before preparing it",
    "notes after the end": "the notes and the sound are of different takes or lengths: pair the right files",
    "no notes": "leave the song out; if it has none on purpose say midi none in a manifest, if nobody wrote "
    "them down list its instruments as unannotated",
    "notes in silence": "the stem is empty or another song's, or the labels are shifted: listen to it",
    "pitch out of range": "look at the octave and the program of the notes; --program says what they are",
    "labels shifted": "prepare again with --label-shift MS (in a manifest label_shift_ms): the shift with "
    "the other sign",
    "another octave": "see that these are the notes of this recording; then move them by octaves, or say "
    "that the octave is not reliable (--octave-unknown)",
    "same sound twice in a split": "take one of the files away and prepare again with --overwrite, or this "
    "recording counts twice",
    "same sound in two data sets": "leave one of the data sets out of -d, or this recording counts twice in "
    "training",
    "same sound in two splits": "take one of the files away and prepare again with --overwrite, or "
    "the scores say nothing about new songs",
    "same notes in two splits": "put all versions of a piece into one split (in a manifest: split)",
    "empty split": "a run needs songs to train on and songs to validate with",
    "no class in the task": "choose another task with -tk, or give the notes a program it knows (--program)",
}
"""Kinds of problems, and what helps."""


@dataclass(frozen=True)
class CheckedSplit:
    """A split that is looked at."""

    store: SongStore
    split: str
    role: str
    """Splits of one role may share songs."""
    shares_songs: bool = False
    """Whether the same song of the store may stand in other splits too (as folds do)."""

    @property
    def name(self) -> str:
        """``store/split``."""
        return f"{self.store.name}/{self.split}"


@dataclass(frozen=True)
class Problem:
    """Something that spoils training."""

    kind: str
    """Key of ``WAYS_OUT``."""
    place: str
    """Split and song, or splits, or two songs."""
    text: str


@dataclass
class CheckReport:
    """What was found."""

    problems: list[Problem] = field(default_factory=list)
    songs: dict[str, SongFacts] = field(default_factory=dict)
    """``store/split/song`` to its numbers."""
    splits: dict[str, tuple[int, float, int]] = field(default_factory=dict)
    """Songs, seconds and notes of each split."""
    shifts: dict[str, tuple[float | None, int]] = field(default_factory=dict)
    """Median label shift of each split in ms, and the songs it was measured on."""
    programs: Counter[int] = field(default_factory=Counter)
    """Notes of each program in all splits, 128 for drums."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": "amt-check",
            "version": 1,
            "problems": [{**vars(item), "way_out": WAYS_OUT[item.kind]} for item in self.problems],
            "splits": {
                name: {
                    "songs": songs,
                    "seconds": seconds,
                    "notes": notes,
                    "label_shift_ms": self.shifts[name][0],
                    "songs_with_shift": self.shifts[name][1],
                }
                for name, (songs, seconds, notes) in self.splits.items()
            },
            "songs": {name: facts.as_dict() for name, facts in self.songs.items()},
        }


def splits_of_store(store: SongStore) -> list[CheckedSplit]:
    """All splits of a store."""
    return [CheckedSplit(store, split, split, shares_songs=True) for split in store.splits]


def splits_of_presets(
    names: Sequence[str], data_home: Path, excluded: Sequence[str] = ()
) -> list[CheckedSplit]:
    """The splits that a run with ``-d names`` trains on and scores; those of one role may share songs.

    Raises:
        ValueError: for unknown names, and stores that are missing or broken.
    """
    data = open_presets(names, data_home, excluded=excluded, check_files=False)
    splits = {
        (item.store.path, split): CheckedSplit(item.store, split, "train")
        for item in data.training
        for split in item.splits
    }
    for item in (*data.validation, *data.test):
        splits.setdefault((item.store.path, item.split), CheckedSplit(item.store, item.split, "scored"))
    return list(splits.values())


def check_splits(
    splits: Sequence[CheckedSplit],
    *,
    task: str | None = None,
    processes: int | None = None,
    progress: bool = True,
) -> CheckReport:
    """Look at every song of the splits, and for the same sound twice, or the same notes in splits of
    different roles.

    Args:
        splits: what to look at.
        task: also name notes whose programs have no class in this task.
        processes: that look; by default one per core where there are songs enough.
        progress: show a bar.
    """
    report = CheckReport()
    rows = [
        (item, number, str(song_id))
        for item in splits
        for number, song_id in enumerate(item.store.index(item.split)["song_id"].tolist())
    ]
    jobs = list({(str(i.store.path), song): (str(i.store.path), i.split, n) for i, n, song in rows}.values())
    keys = list({(str(item.store.path), song): None for item, _, song in rows})
    if processes is None:
        processes = default_processes(len(jobs))
    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    facts: dict[tuple[str, str], SongFacts] = {}
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        bar.add_task("", total=len(jobs))
        for key, found in zip(keys, _look(jobs, processes), strict=True):
            facts[key] = found
            bar.advance(bar.task_ids[0])
    for item in splits:
        report.splits[item.name] = (0, 0.0, 0)
        report.programs += item.store.notes_by_program(item.split)
        if item.role in _NEEDED_SPLITS and not item.store.splits[item.split]:
            text = "; ".join(filter(None, ("holds no song", store_way_out(item.store))))
            report.problems.append(Problem("empty split", item.name, text))
    for item, _, song in rows:
        found = facts[str(item.store.path), song]
        place = f"{item.name}/{song}"
        report.songs[place] = found
        songs, seconds, notes = report.splits[item.name]
        report.splits[item.name] = (songs + 1, seconds + found.seconds, notes + found.num_notes)
        report.problems += [Problem(kind, place, text) for kind, text in _song_problems(found)]
    _check_shifts(splits, report)
    _check_pairs([(item, song, facts[str(item.store.path), song]) for item, _, song in rows], report)
    if task is not None:
        tokenizer = NoteTokenizer.from_task(task, segment_samples=_SEGMENT_SAMPLES)
        report.problems += _class_problems(splits, tokenizer)
    return report


def print_check(report: CheckReport, console: Console, shown: int = 10) -> None:
    """The table of the splits, then the problems by kind with what helps; at most ``shown`` of a kind."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("split", "songs", "minutes", "notes", "labels late by", title="checked")
    for name, (songs, seconds, notes) in report.splits.items():
        shift, measured = report.shifts[name]
        late = "-"
        if songs:
            late = "not known: too few clear onsets"
        if shift is not None:
            late = f"{round(shift)} ms ({'median of ' if measured > 1 else ''}{counted(measured, 'song')})"
        table.add_row(name, str(songs), f"{seconds / 60:.1f}", str(notes), late)
    console.print(table)
    if report.programs:
        console.print(f"notes by program: {named_programs(report.programs)}", highlight=False, soft_wrap=True)
    for kind in WAYS_OUT:
        own = [item for item in report.problems if item.kind == kind]
        if not own:
            continue
        console.print(f"[bold]{kind}[/bold]: {len(own)}", highlight=False)
        for item in own[:shown]:
            console.print(f"  {escape(item.place)}: {escape(item.text)}", highlight=False, soft_wrap=True)
        if len(own) > shown:
            console.print(f"  and {len(own) - shown} more (--json FILE lists all)")
        console.print(f"  what helps: {escape(WAYS_OUT[kind])}", highlight=False, soft_wrap=True)
    console.print("no problem found" if not report.problems else f"problems: {len(report.problems)}")


def _look(jobs: Sequence[tuple[str, str, int]], processes: int) -> Iterator[SongFacts]:
    if processes <= 1:
        yield from map(look_at, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(look_at, jobs, chunksize=4)


def _song_problems(facts: SongFacts) -> Iterator[tuple[str, str]]:
    """Kind and sentence of what is wrong with a song."""
    if facts.error:
        yield "unreadable", facts.error
        return
    if facts.seconds == 0:
        yield "no sound", "holds no samples"
        return
    if facts.peak_db < SILENT_PEAK_DB:
        peak = "nothing but zeros" if facts.peak_db == float("-inf") else f"peaks at {facts.peak_db:.0f} dBFS"
        yield "silent", peak
    if facts.clipped > CLIPPED_SHARE:
        yield "clipped", f"{facts.clipped:.2%} of the samples stand at full scale"
    if facts.overloaded > CLIPPED_SHARE:
        yield (
            "overloaded",
            f"the sum of the stems exceeds full scale in {facts.overloaded:.2%} of the samples",
        )
    late = facts.notes_after_end + facts.notes_cut_off
    if late:
        yield (
            "notes after the end",
            f"{late} of {facts.num_notes} notes lie or last beyond the end, {facts.seconds:.1f} s",
        )
    if not facts.num_notes:
        if not facts.without_notes:
            yield "no notes", "has sound, but no notes"
        return
    # A song that is silent throughout, or whose labels are shifted, is named for that.
    silent = facts.silent_notes / facts.num_notes
    if silent > SILENT_NOTES_SHARE and facts.silent_notes >= 3 and facts.peak_db >= SILENT_PEAK_DB:
        yield "notes in silence", f"{facts.silent_notes} of {facts.num_notes} notes sound in a silent stem"
    if facts.notes_out_of_range > OUT_OF_RANGE_SHARE * facts.num_notes:
        yield (
            "pitch out of range",
            f"{facts.notes_out_of_range} of {facts.num_notes} notes lie outside what their instrument plays",
        )
    if facts.shift_ms is not None and abs(facts.shift_ms) > SONG_SHIFT_MS:
        yield "labels shifted", _late(facts.shift_ms)
    if facts.octave:
        yield (
            "another octave",
            f"the voice sounds an octave {'above' if facts.octave > 0 else 'below'} its notes, or these are "
            "not the notes of this recording",
        )


def _late(shift_ms: float) -> str:
    return f"the labels are {abs(shift_ms):.0f} ms {'late' if shift_ms > 0 else 'early'}"


def _class_problems(splits: Sequence[CheckedSplit], tokenizer: NoteTokenizer) -> Iterator[Problem]:
    """What the task has no class for; splits of a store of which the same is to be said share a sentence."""
    alike: dict[Any, list[CheckedSplit]] = {}
    for item in splits:
        if item.store.splits[item.split]:
            programs = set(item.store.notes_by_program(item.split))
            nothing = tokenizer.task.transcribed().isdisjoint(programs)
            # A view would count the songs of other splits again.
            alone = item.split if item.store.is_view(item.split) else ""
            key = (item.store.path, alone, nothing, tokenizer.unclassed_programs & programs)
            alike.setdefault(key, []).append(item)
    for group in alike.values():
        name, store = group[0].store.name, group[0].store
        held = TrainingSet(name, store, tuple(item.split for item in group))
        place = ", ".join(item.name for item in group)
        for text in class_remarks([held], tokenizer):
            yield Problem("no class in the task", place, text.removeprefix(f"{name}: "))


def _check_shifts(splits: Sequence[CheckedSplit], report: CheckReport) -> None:
    for item in splits:
        found = [
            facts.shift_ms
            for place, facts in report.songs.items()
            if place.startswith(f"{item.name}/") and facts.shift_ms is not None
        ]
        median = round(statistics.median(found), 1) if found else None
        report.shifts[item.name] = (median, len(found))
        if median is not None and len(found) >= MIN_SHIFTED_SONGS and abs(median) > MEDIAN_SHIFT_MS:
            text = f"{_late(median)}, the median of {len(found)} songs"
            report.problems.append(Problem("labels shifted", item.name, text))


def _check_pairs(songs: Sequence[tuple[CheckedSplit, str, SongFacts]], report: CheckReport) -> None:
    # Songs of a view are named by the split that they are of.
    songs = sorted(songs, key=lambda row: row[0].store.is_view(row[0].split))
    keys = [(item.store.path, song) for item, song, _ in songs]
    held_by = {
        key: item.split
        for key, (item, _, _) in zip(keys, songs, strict=True)
        if not item.store.is_view(item.split)
    }

    def apart(first: int, second: int) -> bool:
        """Whether what one song teaches is scored on the other."""
        a, b = songs[first][0], songs[second][0]
        shared = a.shares_songs and b.shares_songs and a.store.path == b.store.path
        return a.role != b.role and not (shared and held_by[keys[first]] == held_by[keys[second]])

    def compared(first: int, second: int) -> bool:
        a, b = songs[first][0], songs[second][0]
        return a is b or apart(first, second) or trained_on_in_both(a, b)

    def trained_on_in_both(a: CheckedSplit, b: CheckedSplit) -> bool:
        return a.role == b.role == "train" and a.store.path != b.store.path

    def place(number: int) -> str:
        item, song, _ = songs[number]
        return f"{item.name}/{song}"

    twice: set[tuple[int, int]] = set()
    named: set[frozenset[tuple[Path, str]]] = set()
    for first, second, difference in same_sound([facts.prints for _, _, facts in songs], compared):
        twice.add((first, second))
        a, b = songs[first][0], songs[second][0]
        kind = "same sound in two splits"
        if not apart(first, second):
            kind = f"same sound {'in two data sets' if trained_on_in_both(a, b) else 'twice in a split'}"
            pair = frozenset((keys[first], keys[second]))
            if pair in named:  # once, not for a view of it too
                continue
            named.add(pair)
        text = f"is the recording of {place(second)} ({difference:.0%} of the fingerprint differ)"
        report.problems.append(Problem(kind, place(first), text))
    for first, second, share in same_notes([facts.grams for _, _, facts in songs], apart):
        if (first, second) not in twice:
            text = f"has {share:.0%} of its passages in common with {place(second)}"
            report.problems.append(Problem("same notes in two splits", place(first), text))

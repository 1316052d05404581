"""A test: every song of the chosen sets estimated, scored, and summed up."""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..config.names import counted
from ..config.tasks import none_taken_text
from ..data.classes import nothing_to_score
from ..data.scored import Reference, ScoredSet, reference_of
from ..data.songs import TaskView
from ..evaluation import (
    ShiftScore,
    ShiftSums,
    SongScores,
    best_shift,
    metric_table,
    note_errors,
)
from ..evaluation.scoring import drum_hits
from ..evaluation.shift import TIMES
from ..inference.choices import NO_SUBTASK
from ..inference.files import atomic_path
from ..notes import array_to_notes, notes_to_array, write_midi
from ..notes.note import Note, note_programs
from .page import Example
from .plan import TestPlan, conventions_of
from .result import Failure, SetResult, ShiftRow, SongResult, TestResult, without_reference
from .systems import Estimate, ScoredSong, System

OCTAVE_SHIFTS = (-24, -12, 0, 12, 24)
EVERY_CLASS = "all"
MIDI_FOLDER = "midi"
"""Folder of the estimates that were written, in that of the results."""
Progress = Callable[[int, int, float], None]
"""Called with the songs done, those in all, and the seconds of sound that were done."""


@dataclass(frozen=True)
class ShownSong:
    """A song of the report, without its sound."""

    item: ScoredSong
    estimate: Sequence[Note]
    result: SongResult

    def example(self) -> Example:
        """With its sound, read anew."""
        scores = self.result.scores.scores
        return Example(
            self.result.song_id,
            self.item.song.mix(),
            self.item.song.sample_rate,
            self.estimate,
            array_to_notes(self.item.reference.notes),
            scores["onset_f"],
            scores["offset_f"],
        )


@dataclass
class Extremes:
    """The best and worst songs of a set, by ``onset_f``; songs without a reference are in neither."""

    num_kept: int
    best: list[ShownSong] = field(default_factory=list)
    """Best first."""
    worst: list[ShownSong] = field(default_factory=list)
    """Worst first; in a small set none that is among the best."""

    def add(self, song: ShownSong) -> None:
        """Consider one more song."""
        if math.isnan(_onset_f(song)):
            return
        self.best = sorted([*self.best, song], key=_onset_f, reverse=True)[: self.num_kept]
        self.worst = sorted([*self.worst, song], key=_onset_f)[: self.num_kept]

    def settle(self) -> None:
        """Show no song twice."""
        best = {song.result.song_id for song in self.best}
        self.worst = [song for song in self.worst if song.result.song_id not in best]


def _onset_f(song: ShownSong) -> float:
    return song.result.scores.scores["onset_f"]


@dataclass(frozen=True)
class TestRun:
    """A test that is done."""

    __test__ = False  # pytest takes no class of this name for tests

    result: TestResult
    shown: dict[str, Extremes]
    """The songs to show of each set."""


def run_test(
    system: System,
    sets: Sequence[ScoredSet],
    plan: TestPlan,
    out: Path,
    progress: Progress = lambda done, total, seconds: None,
) -> TestRun:
    """Estimate and score every song.

    Args:
        system: what is tested.
        sets: the songs.
        plan: what is scored.
        out: MIDI files go to ``out/midi/SET/SONG.mid``.
        progress: called after each song.

    Raises:
        ValueError: no set holds a song, or not one song could be scored.
    """
    facts = system.facts()  # before the work: a run that goes on writes its last.ckpt anew
    results: list[SetResult] = []
    songs: list[SongResult] = []
    shown: dict[str, Extremes] = {}
    chosen = [replace(scored, max_songs=plan.max_songs) for scored in sets]
    total, done, seconds = sum(scored.num_songs() for scored in chosen), 0, 0.0
    for scored in chosen:
        part = _SetRun(system, scored, plan, out)
        for song_seconds in part.run():
            done, seconds = done + 1, seconds + song_seconds
            progress(done, total, seconds)
        results.append(part.result())
        songs += part.songs
        part.extremes.settle()
        shown[scored.name] = part.extremes
    failures = [failure for item in results for failure in item.failures]
    if not songs:
        if failures:
            first = failures[0]
            raise ValueError(
                f"not one of {counted(len(failures), 'song')} could be scored; {first.song_id}: "
                f"{first.reason}"
            )
        raise ValueError(f"no song to score in {', '.join(item.name for item in sets)}")
    metrics = metric_table(
        {item.name: [song.scores for song in songs if song.set_name == item.name] for item in results}
    )
    result = TestResult(system.name, facts, conventions_of(system, plan), results, tuple(songs), metrics)
    return TestRun(result, shown)


class _SetRun:
    """The songs of one set."""

    def __init__(self, system: System, scored: ScoredSet, plan: TestPlan, out: Path) -> None:
        self._system, self._scored, self._plan, self._out = system, scored, plan, out
        self._scoring = plan.scoring(scored, system.tokenizer.task)
        self._labels: dict[int, bytes] = {}
        """Digest of the notes of each song, by place."""
        self._failures: dict[int, Failure] = {}
        self._found: dict[int, SongResult] = {}
        self._labelled: Counter[int] = Counter()
        """Notes of each program in the labels, whether or not they are scored."""
        self._estimated: Counter[int] = Counter()
        """The same of the estimates, as far as they are known."""
        self._num_taken = 0
        """Estimated notes that the task takes."""
        self.extremes = Extremes(plan.num_shown)
        classes = (
            {EVERY_CLASS: None, **self._scoring.vocab}
            if len(self._scoring.vocab) > 1
            else {EVERY_CLASS: None}
        )
        self._octaves = {
            name: (programs, ShiftSums(OCTAVE_SHIFTS, tolerances=self._scoring.tolerances))
            for name, programs in classes.items()
            if plan.octave_shift
        }
        self._times = ShiftSums((0,), TIMES, self._scoring.tolerances) if plan.label_shift else None

    @property
    def songs(self) -> list[SongResult]:
        """The songs that were scored, in the order of the set."""
        return [self._found[place] for place in sorted(self._found)]

    def run(self) -> Iterator[float]:
        """Score every song; the seconds of sound of each as it is done, 0 without a readable reference."""
        places, items = self._references()
        for _ in self._failures:
            yield 0.0
        for number, found in self._system.estimate(items):
            place, item = places[number], items[number]
            if isinstance(found, Exception):
                self._fail(place, item.song.song_id, found)
            else:
                try:
                    self._score(place, item, found)
                except (ValueError, OSError) as error:
                    self._fail(place, item.song.song_id, error)
            yield _seconds(item)

    def result(self) -> SetResult:
        """What is said about the set."""
        store, split = self._scored.store, self._scored.split
        labels = hashlib.sha256(b"".join(self._labels[place] for place in sorted(self._found)))
        return SetResult(
            self._scored.name,
            store.name,
            split,
            store.recorded_hash(split),
            labels.hexdigest(),
            {name: tuple(programs) for name, programs in self._scoring.vocab.items()},
            tuple(self._failures[place] for place in sorted(self._failures)),
            tuple(row for name, (_, sums) in self._octaves.items() for row in _shift_rows(name, sums)),
            () if self._times is None else tuple(_shift_rows(EVERY_CLASS, self._times)),
            self._remark(),
        )

    def _remark(self) -> str:
        """Why there is nothing to score, or nothing of the estimates that counts."""
        if not self._found:
            return ""
        task = self._system.tokenizer.task
        forced = self._forced()
        subtask = None if forced is None else forced[0]
        if without_reference(self._found.values()):
            return nothing_to_score(self._scored.name, self._scored.store.name, self._labelled, task, subtask)
        if self._estimated and not self._num_taken:
            text = none_taken_text(task.name, self._estimated, f"the estimates of {self._scored.name}")
            return f"{text}; --estimates-program N says what their pitched notes are"
        return ""

    def _references(self) -> tuple[list[int], list[ScoredSong]]:
        """The songs whose notes can be read, and their places in the set."""
        view = TaskView(self._system.tokenizer.task)
        places: list[int] = []
        items: list[ScoredSong] = []
        for place in range(self._scored.num_songs()):
            song = self._scored.store.song(self._scored.split, place)
            try:
                reference = reference_of(song, self._system.tokenizer, view, self._forced())
                self._labels[place] = hashlib.sha256(song.notes.tobytes()).digest()
                self._labelled.update(note_programs(song.notes).tolist())
            except (ValueError, OSError) as error:
                self._fail(place, song.song_id, error)
                continue
            places.append(place)
            items.append(ScoredSong(self._scored.name, song, reference))
        return places, items

    def _forced(self) -> tuple[str | None] | None:
        """The sub-task that all songs are asked for; None: each as its annotation allows."""
        name = self._system.subtask
        return None if name is None else (None if name == NO_SUBTASK else name,)

    def _fail(self, place: int, song_id: str, error: Exception) -> None:
        self._failures[place] = Failure(song_id, str(error).strip() or type(error).__name__)

    def _score(self, place: int, item: ScoredSong, found: Estimate) -> None:
        reference, estimate = item.reference.notes, item.reference.comparable(found.notes)
        seconds = _seconds(item)
        counts = self._scoring.counts(reference, estimate, duration=seconds)
        self._estimated += found.programs
        self._num_taken += len(found.notes)
        midi = self._write(item, found)
        song = SongResult(
            self._scored.name,
            item.song.song_id,
            found.audio_sha256,
            seconds,
            found.num_windows,
            len(reference),
            len(estimate),
            sum(found.malformed.values()),
            midi,
            SongScores(counts.scores(), counts.ratios()),
            note_errors(reference, estimate, self._scoring),
        )
        self._scan(item.reference, estimate)
        self._found[place] = song
        self.extremes.add(ShownSong(item, estimate, song))

    def _write(self, item: ScoredSong, found: Estimate) -> str:
        """The MIDI file of the estimate, seen from the folder of the results."""
        if found.file is not None:
            return Path(os.path.relpath(found.file, self._out)).as_posix()
        if not self._plan.write_midi:
            return ""
        path = self._out / MIDI_FOLDER / self._scored.name / f"{item.song.song_id}.mid"
        with atomic_path(path) as temporary:
            write_midi(found.notes, temporary, track_names=found.class_names)
        return path.relative_to(self._out).as_posix()

    def _scan(self, reference: Reference, estimate: Sequence[Note]) -> None:
        whole = reference.notes, notes_to_array(estimate)
        notes, found = (side[~side["is_drum"]] for side in whole)
        if self._times is not None:
            hits = [drum_hits(side[side["is_drum"]], self._scoring.drum_vocab) for side in whole]
            self._times.add(np.concatenate([notes, hits[0]]), np.concatenate([found, hits[1]]))
        for programs, sums in self._octaves.values():
            if programs is None:
                sums.add(notes, found)
            else:
                members = list(programs)
                sums.add(notes[np.isin(notes["program"], members)], found[np.isin(found["program"], members)])


def _seconds(item: ScoredSong) -> float:
    return item.song.num_samples / item.song.sample_rate


def _shift_rows(classes: str, sums: ShiftSums) -> list[ShiftRow]:
    scores: list[ShiftScore] = sums.scores()
    if not scores or not scores[0].score.num_reference:
        return []
    best = best_shift(scores)
    return [ShiftRow(classes, item.semitones, item.seconds, item.score.f, item is best) for item in scores]

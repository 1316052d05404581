"""One training segment from its number: sound and labels, cut and augmented together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..config.audio import AudioConfig
from ..config.data import Augmentation
from ..notes.note import NoteArray
from ..tokenizer import NoteTokenizer
from .augment.cross import allowed_groups, draw_foreign_count, foreign_count_probabilities
from .augment.pitch import PitchShift, draw_pitch_shift, semitone_choices, shift_notes
from .augment.stems import choose_stems
from .collate import join_notes
from .render import Audio, Renderer, Source
from .sampling import KeyedGenerators, Position, SongDraw, start_of
from .songs import SongCache, SongEntry, TaskView
from .store import SongStore
from .weights import WeightTable

TOKENS_PER_NOTE = 6
"""Guess used to keep foreign sources from making a label too long."""
TRIES = 20
"""Places looked at for a segment with, or without, notes (``negative_share``)."""


@dataclass(frozen=True)
class TrainingSet:
    """One data set of a run: splits of a store, joined, and its share of the draws."""

    name: str
    store: SongStore
    splits: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Sample:
    """One segment."""

    number: int
    """Global sample number."""
    audio: Audio
    """(S,) in [-1, 1]."""
    notes: NoteArray
    """Target notes in and around the window, seconds from its start."""
    labels: npt.NDArray[np.int64]
    """(C, n) token ids."""
    dataset: int
    octave_unknown: bool
    channel_annotated: npt.NDArray[np.bool_]
    """(C,) False where nothing of a channel is annotated."""
    channel_complete: npt.NDArray[np.bool_]
    """(C,) False where some instrument of a channel sounds without notes."""
    fully_annotated: bool
    """Whether all target instruments of the task that sound have notes."""
    subtask: str | None = None
    """The sub-task its labels begin with."""
    num_truncated: int = 0
    """Channels whose label was too long and is cut."""
    moving: Audio | None = None
    """(S,) further sound, whose frequencies are still to be multiplied by ``speed``."""
    speed: float = 1.0


class SegmentMaker:
    """Makes sample number g of a run; the same one in any process. Can be pickled."""

    def __init__(
        self,
        sets: Sequence[TrainingSet],
        tokenizer: NoteTokenizer,
        audio: AudioConfig,
        augmentation: Augmentation,
        *,
        seed: int,
        sub_batch: int,
        weights: WeightTable | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._view = TaskView(tokenizer.task)
        self._augmentation = augmentation
        self._generators = KeyedGenerators(seed)
        self._sub_batch = sub_batch
        self._num_samples = audio.segment_samples
        self._sample_rate = audio.sample_rate
        self._seconds = audio.segment_seconds
        parts: list[tuple[SongStore, str]] = []
        self._first_part: list[int] = []
        self._part_ends: list[npt.NDArray[np.int64]] = []
        lengths = []
        for item in sets:
            self._first_part.append(len(parts))
            parts += [(item.store, split) for split in item.splits]
            rows = [item.store.index(split)["num_samples"].astype(np.int64) for split in item.splits]
            self._part_ends.append(np.cumsum([len(row) for row in rows]))
            lengths.append(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64))
        self._lengths = lengths
        self._draw = SongDraw(lengths, [item.weight for item in sets])
        self._cache = SongCache(parts, tokenizer)
        self._foreign_counts = foreign_count_probabilities(
            augmentation.xaug_max_k, augmentation.xaug_tau, augmentation.xaug_alpha
        )
        self._weights = weights
        self._renderer = Renderer(augmentation, self._num_samples, self._sample_rate, self._rng)
        self._pool_size = max(sub_batch, 4 * augmentation.xaug_max_k)
        low, high = semitone_choices(augmentation.pitch_shift_range)
        self._shifts = low != 0 or high != 0 or augmentation.pitch_shift_detune > 0

    def make(self, number: int) -> Sample:
        """Sample number ``number``."""
        shift = PitchShift()
        if self._shifts:
            shift = draw_pitch_shift(
                self._rng("pitch", number),
                self._augmentation.pitch_shift_range,
                self._augmentation.pitch_shift_detune,
                keeps_time=self._augmentation.pitch_shift_method != "speed",
            )
        position = self._position(number, shift)
        subtask = self._subtask(self._entry(position), number)
        own = self._own_source(position, shift, number, subtask)
        sources = [own, *self._foreign_sources(own, shift, number)]
        notes = join_notes([source.notes for source in sources])
        before = self._tokenizer.truncated
        labels = self._tokenizer.encode_window(self._tokenizer.subtask_notes(notes, subtask), subtask=subtask)
        known = self._known_programs(own)
        annotated, complete = self._view.annotated(known, subtask)
        audio, moving = self._renderer.render(sources, number)
        return Sample(
            number=number,
            audio=audio,
            notes=notes,
            labels=labels,
            dataset=position.dataset,
            octave_unknown=any(source.entry.song.octave_unknown for source in sources),
            channel_annotated=annotated,
            channel_complete=complete,
            fully_annotated=bool(known[self._view.target_list].all()),
            subtask=subtask,
            num_truncated=self._tokenizer.truncated - before,
            moving=moving,
            speed=1.0 if moving is None else shift.speed,
        )

    def _position(self, number: int, shift: PitchShift) -> Position:
        """Where sample ``number`` comes from."""
        shares = self._weights.at(number) if self._weights is not None else None
        position = self._draw.draw(self._rng("source", number), shares)
        if self._augmentation.negative_share < 0:
            return position
        negative, rng = self._is_negative(number)
        for _ in range(TRIES):
            _, own_shift, notes = self._cut(self._entry(position), position.place, shift)
            if bool((shift_notes(notes, own_shift)["onset"] < self._seconds).any()) != negative:
                break
            # The data set stays: what it lacks must not change its share.
            position = self._draw.draw_from(position.dataset, rng)
        return position

    def _is_negative(self, number: int) -> tuple[bool, np.random.Generator]:
        """Whether sample ``number`` is one of the share without notes, and the generator of further draws."""
        rng = self._rng("negative", number)
        return bool(rng.random() < self._augmentation.negative_share), rng

    def _subtask(self, entry: SongEntry, number: int) -> str | None:
        """The sub-task that a sample of the song asks for."""
        if not entry.subtasks:
            return None
        choice = self._rng("subtask", number).choice(len(entry.subtasks), p=entry.subtask_shares)
        return entry.subtasks[int(choice)]

    def _rng(self, stream: str, number: int) -> np.random.Generator:
        return self._generators.get(stream, number)

    def _entry(self, position: Position) -> SongEntry:
        ends = self._part_ends[position.dataset]
        part = int(np.searchsorted(ends, position.song, side="right"))
        first = int(ends[part - 1]) if part else 0
        return self._cache.get(self._first_part[position.dataset] + part, position.song - first)

    def _cut(self, entry: SongEntry, place: float, shift: PitchShift) -> tuple[int, PitchShift, NoteArray]:
        """Start sample, shift and all target notes near the window, in the window's time, unshifted."""
        if shift.active and not entry.can_shift:
            shift = PitchShift()
        span = shift.span(self._num_samples)
        start = start_of(place, entry.song.num_samples, span)
        begin = start / self._sample_rate
        notes = entry.notes_near(begin, begin + span / self._sample_rate).copy()
        notes["onset"] -= begin
        notes["offset"] -= begin
        return start, shift, notes

    def _source(
        self, entry: SongEntry, start: int, shift: PitchShift, notes: NoteArray, keep: npt.NDArray[np.bool_]
    ) -> Source:
        if len(notes) and not keep.all():
            notes = notes[keep[entry.groups_of(notes)]]
        return Source(entry, start, keep, shift, shift_notes(notes, shift))

    def _own_source(self, position: Position, shift: PitchShift, number: int, subtask: str | None) -> Source:
        entry = self._entry(position)
        start, shift, notes = self._cut(entry, position.place, shift)
        keep_prob = self._augmentation.stem_keep_prob
        if keep_prob >= 1.0:
            keep = np.ones(entry.num_groups, dtype=bool)
        else:
            with_notes = np.zeros(entry.num_groups, dtype=bool)
            with_notes[entry.groups_of(notes)] = True
            always = entry.group_is_target
            if subtask is not None and self._view.subtasks[subtask].is_part:
                targets = self._view.subtask_targets(subtask)
                always = np.array([bool(group & targets) for group in entry.group_programs], dtype=bool)
            keep = choose_stems(self._rng("stems", number), keep_prob, always, with_notes)
        return self._source(entry, start, shift, notes, keep)

    def _foreign_sources(self, own: Source, shift: PitchShift, number: int) -> list[Source]:
        augmentation = self._augmentation
        if augmentation.xaug_max_k == 0 or own.entry.unannotated:
            return []
        rng = self._rng("cross", number)
        count = draw_foreign_count(rng, self._foreign_counts)
        sources: list[Source] = []
        present = own.classes
        num_notes = len(own.notes)
        places = rng.choice(self._pool_size, count, replace=False).tolist() if count else []
        negative, _ = self._is_negative(number)
        singer = self._singer(own, number)
        if singer is not None:
            places = [singer, *(place for place in places if place != singer)][: max(count, 1)]
        for place in places:
            entry, position = self._pool_entry(number, place)
            if entry.unannotated or entry.song.folder == own.entry.song.folder:
                continue
            allowed = allowed_groups(
                entry.group_classes,
                present,
                no_instr_overlap=augmentation.xaug_no_instr_overlap,
                no_drum_overlap=augmentation.xaug_no_drum_overlap,
            )
            start, own_shift, notes = self._cut(entry, position.place, shift)
            keep = np.flatnonzero(allowed)
            if not len(keep):
                continue
            if augmentation.xaug_intra_stem:
                with_notes = np.zeros(entry.num_groups, dtype=bool)
                with_notes[entry.groups_of(notes)] = True
                always = entry.group_sings[keep] & (place == singer)
                keep = keep[choose_stems(rng, augmentation.stem_keep_prob, always, with_notes[keep])]
            mask = np.zeros(entry.num_groups, dtype=bool)
            mask[keep] = True
            source = self._source(entry, start, own_shift, notes, mask)
            room = self._tokenizer.max_length * self._view.num_channels
            if (num_notes + len(source.notes)) * TOKENS_PER_NOTE > room or (negative and len(source.notes)):
                continue
            num_notes += len(source.notes)
            present |= source.classes
            sources.append(source)
        return sources

    def _pool_entry(self, number: int, place: int) -> tuple[SongEntry, Position]:
        """Source number ``place`` of the pool that the samples of a sub-batch share."""
        batch = number // self._sub_batch
        shares = self._weights.at(batch * self._sub_batch) if self._weights is not None else None
        position = self._draw.draw(self._rng("pool", batch * self._pool_size + place), shares)
        return self._entry(position), position

    def _singer(self, own: Source, number: int) -> int | None:
        """Place in the pool of a source with singing, where the segment has none and is to get one."""
        wanted = self._augmentation.xaug_include_singing
        if wanted <= 0 or own.entry.group_sings[own.keep].any():
            return None
        rng = self._rng("singing", number)
        if rng.random() >= wanted:
            return None
        for place in rng.permutation(self._pool_size).tolist():
            entry, _ = self._pool_entry(number, place)
            if (
                entry.group_sings.any()
                and entry.song.folder != own.entry.song.folder
                and not entry.unannotated
            ):
                return int(place)
        return None

    def _known_programs(self, own: Source) -> npt.NDArray[np.bool_]:
        """(129,) whether each program's notes are known in what is heard of the segment's own song.

        Instruments without notes sound in the stems without programs; where those are dropped, all is known.
        """
        entry = own.entry
        unannotated = entry.unannotated
        silent = [not programs for programs in entry.group_programs]
        if unannotated and any(silent) and not any(np.logical_and(silent, own.keep)):
            unannotated = []
        return self._view.known_programs(unannotated, entry.annotated_programs)

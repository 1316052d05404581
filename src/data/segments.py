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
from .augment.eq import equalise
from .augment.gain import draw_gains, guard_clipping
from .augment.noise import add_noise
from .augment.pitch import MARGIN, PitchShift, draw_pitch_shift, semitone_choices, shift_audio, shift_notes
from .augment.room import add_room
from .augment.stems import choose_stems
from .collate import join_notes
from .sampling import Position, SongDraw, keyed_rng, start_of
from .songs import SongCache, SongEntry, TaskView
from .store import SongStore, mix_stems

TOKENS_PER_NOTE = 6
"""Guess used to keep foreign sources from making a label too long."""

Audio = npt.NDArray[np.float32]


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
    """(C,)"""


@dataclass(frozen=True)
class _Source:
    """What is heard of one song."""

    entry: SongEntry
    start: int
    keep: npt.NDArray[np.bool_]
    """(G,) groups that are heard."""
    shift: PitchShift
    notes: NoteArray
    """Of the kept groups; seconds from the start of the window, shifted."""

    @property
    def stems(self) -> list[int]:
        return sorted(
            stem
            for group, kept in zip(self.entry.stem_groups, self.keep, strict=True)
            if kept
            for stem in group
        )


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
    ) -> None:
        self._tokenizer = tokenizer
        self._view = TaskView(tokenizer.task)
        self._augmentation = augmentation
        self._seed = seed
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
            )
        position = self._draw.draw(self._rng("source", number))
        own = self._own_source(position, shift, number)
        sources = [own, *self._foreign_sources(own, shift, number)]
        notes = join_notes([source.notes for source in sources])
        labels = self._tokenizer.encode_window(notes)
        return Sample(
            number=number,
            audio=self._sound(sources, number),
            notes=notes,
            labels=labels,
            dataset=position.dataset,
            octave_unknown=any(source.entry.song.octave_unknown for source in sources),
            channel_annotated=self._annotated(own),
        )

    def _rng(self, stream: str, number: int) -> np.random.Generator:
        return keyed_rng(self._seed, stream, number)

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
    ) -> _Source:
        if len(notes) and not keep.all():
            notes = notes[keep[entry.groups_of(notes)]]
        return _Source(entry, start, keep, shift, shift_notes(notes, shift))

    def _own_source(self, position: Position, shift: PitchShift, number: int) -> _Source:
        entry = self._entry(position)
        start, shift, notes = self._cut(entry, position.place, shift)
        keep_prob = self._augmentation.stem_keep_prob
        if keep_prob >= 1.0:
            keep = np.ones(entry.num_groups, dtype=bool)
        else:
            with_notes = np.zeros(entry.num_groups, dtype=bool)
            with_notes[entry.groups_of(notes)] = True
            keep = choose_stems(self._rng("stems", number), keep_prob, entry.group_is_target, with_notes)
        return self._source(entry, start, shift, notes, keep)

    def _foreign_sources(self, own: _Source, shift: PitchShift, number: int) -> list[_Source]:
        augmentation = self._augmentation
        if augmentation.xaug_max_k == 0 or own.entry.unannotated:
            return []
        rng = self._rng("cross", number)
        sources: list[_Source] = []
        count = draw_foreign_count(rng, self._foreign_counts)
        present = _classes(own)
        num_notes = len(own.notes)
        first = number // self._sub_batch * self._pool_size
        for place in rng.choice(self._pool_size, count, replace=False).tolist() if count else ():
            position = self._draw.draw(self._rng("pool", first + place))
            entry = self._entry(position)
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
                never = np.zeros(len(keep), dtype=bool)
                keep = keep[choose_stems(rng, augmentation.stem_keep_prob, never, with_notes[keep])]
            mask = np.zeros(entry.num_groups, dtype=bool)
            mask[keep] = True
            source = self._source(entry, start, own_shift, notes, mask)
            if (
                num_notes + len(source.notes)
            ) * TOKENS_PER_NOTE > self._tokenizer.max_length * self._view.num_channels:
                continue
            num_notes += len(source.notes)
            present |= _classes(source)
            sources.append(source)
        return sources

    def _sound(self, sources: Sequence[_Source], number: int) -> Audio:
        """(S,) the sum of what is heard, then room, noise and the guard against clipping."""
        augmentation = self._augmentation
        size = self._num_samples
        low, high = augmentation.amp_range
        rng = self._rng("gain", number)
        filters = self._rng("eq", number) if augmentation.eq_prob > 0 else None
        if low == high == 1.0 and filters is None and not any(source.shift.active for source in sources):
            audio = np.zeros(size, dtype=np.float32)
            for source in sources:
                audio += mix_stems(
                    source.entry.song.read_stems(source.start, source.start + size, source.stems)
                )
        else:
            audio = np.zeros(size, dtype=np.float32)
            moved: Audio | None = None
            shift = PitchShift()
            for source in sources:
                span = source.shift.span(size) + (MARGIN if source.shift.active else 0)
                stems = source.stems
                samples = source.entry.song.read_stems(source.start, source.start + span, stems)
                gains = draw_gains(rng, len(stems), augmentation.amp_range) * np.float32(1 / 32768)
                for stem, gain, row in zip(stems, gains, samples, strict=True):
                    shifted = source.shift.active and not source.entry.stem_is_drum[stem]
                    sound = row.astype(np.float32) if shifted else row[:size].astype(np.float32)
                    sound *= gain
                    target = source.entry.stem_is_target[stem]
                    if filters is not None and target and filters.random() < augmentation.eq_prob:
                        sound = equalise(sound, filters, self._sample_rate)
                    if not shifted:
                        audio += sound
                    elif moved is None:
                        moved, shift = sound, source.shift
                    else:
                        moved += sound
            if moved is not None:
                audio += shift_audio(moved, shift, size)
            audio *= draw_gains(rng, 1, augmentation.amp_range)
        if augmentation.reverb_prob > 0:
            rng = self._rng("room", number)
            if rng.random() < augmentation.reverb_prob:
                audio = add_room(audio, rng, self._sample_rate)
        if augmentation.noise_prob > 0:
            rng = self._rng("noise", number)
            if rng.random() < augmentation.noise_prob:
                audio = add_noise(audio, rng, augmentation.noise_snr_range)
        return guard_clipping(audio)

    def _annotated(self, own: _Source) -> npt.NDArray[np.bool_]:
        """(C,) whether the channels' instruments are annotated in what is heard of the segment's own song.

        Instruments without notes sound in the stems without programs; where those are dropped, all is known.
        """
        entry = own.entry
        unannotated = entry.unannotated
        silent = [not programs for programs in entry.group_programs]
        if unannotated and any(silent) and not any(np.logical_and(silent, own.keep)):
            unannotated = []
        return self._view.annotated(unannotated, entry.annotated_programs)


def _classes(source: _Source) -> set[int]:
    return {
        item
        for group, kept in zip(source.entry.group_classes, source.keep, strict=True)
        if kept
        for item in group
    }

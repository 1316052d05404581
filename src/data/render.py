"""The sound of a training segment: the stems that are heard, with their gains, shifted, in a room, coded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..config.data import Augmentation
from ..notes.note import NoteArray
from .augment.codec import add_codec
from .augment.eq import equalise
from .augment.gain import draw_gains, guard_clipping
from .augment.noise import add_noise
from .augment.pitch import MARGIN, PitchShift, shift_audio
from .augment.room import add_room
from .songs import SongEntry

Audio = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Source:
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
        """Numbers of the stems that are heard."""
        return sorted(
            stem
            for group, kept in zip(self.entry.stem_groups, self.keep, strict=True)
            if kept
            for stem in group
        )

    @property
    def classes(self) -> set[int]:
        """Instrument classes that are heard."""
        return {
            item
            for group, kept in zip(self.entry.group_classes, self.keep, strict=True)
            if kept
            for item in group
        }


class Renderer:
    """Makes the sound of segments.

    Args:
        augmentation: what is done to it.
        num_samples: length of a segment.
        sample_rate: in Hz.
        rng: ``rng(stream, number)`` gives the generator of one kind of draw of one sample.
    """

    def __init__(
        self,
        augmentation: Augmentation,
        num_samples: int,
        sample_rate: int,
        rng: Callable[[str, int], np.random.Generator],
    ) -> None:
        self._augmentation = augmentation
        self._num_samples = num_samples
        self._sample_rate = sample_rate
        self._rng = rng

    def render(self, sources: Sequence[Source], number: int) -> tuple[Audio, Audio | None]:
        """(S,) the sum of what is heard, then room, noise, codec and the guard against clipping.

        Where pitch is shifted on the device, what is to be shifted comes apart, (S,), and nothing follows the
        sum.
        """
        augmentation = self._augmentation
        plain = augmentation.amp_range == (1.0, 1.0) and augmentation.eq_prob == 0
        if plain and not any(source.shift.active for source in sources):
            audio = self._plain_sum(sources)
        else:
            audio, moving = self._sum(sources, number)
            if moving is not None:
                return audio, moving
        for stream, probability, change in (
            ("room", augmentation.reverb_prob, self._room),
            ("noise", augmentation.noise_prob, self._noise),
            ("codec", augmentation.codec_prob, self._codec),
        ):
            if probability > 0:
                rng = self._rng(stream, number)
                if rng.random() < probability:
                    audio = change(audio, rng)
        return guard_clipping(audio), None

    def _room(self, audio: Audio, rng: np.random.Generator) -> Audio:
        return add_room(audio, rng, self._sample_rate)

    def _noise(self, audio: Audio, rng: np.random.Generator) -> Audio:
        return add_noise(audio, rng, self._augmentation.noise_snr_range)

    def _codec(self, audio: Audio, rng: np.random.Generator) -> Audio:
        return add_codec(audio, rng, self._sample_rate)

    def _plain_sum(self, sources: Sequence[Source]) -> Audio:
        """The stems as they are: for one song equal to the song's own mix."""
        total: Audio | None = None
        for source in sources:
            mixed: Audio | None = None
            song = source.entry.song
            for row in song.each_stem(source.start, source.start + self._num_samples, source.stems):
                if mixed is None:
                    mixed = row.astype(np.float32)
                else:
                    mixed += row
            if mixed is None:
                continue
            mixed *= np.float32(1 / 32768)
            np.clip(mixed, -1.0, 1.0, out=mixed)
            total = mixed if total is None else total + mixed
        return np.zeros(self._num_samples, dtype=np.float32) if total is None else total

    def _sum(self, sources: Sequence[Source], number: int) -> tuple[Audio, Audio | None]:
        """The stems with their gains; pitched ones of shifted sources in one sum that is shifted, or given
        apart for the device to shift."""
        augmentation, size = self._augmentation, self._num_samples
        rng = self._rng("gain", number)
        filters = self._rng("eq", number) if augmentation.eq_prob > 0 else None
        audio = np.zeros(size, dtype=np.float32)
        moved: Audio | None = None
        shift = PitchShift()
        units: list[np.float32] = []
        for source in sources:
            span = source.shift.span(size) + (MARGIN if source.shift.active else 0)
            entry, stems = source.entry, source.stems
            gains = draw_gains(rng, len(stems), augmentation.amp_range)
            self._share_gains(gains, units, number)
            gains *= np.float32(1 / 32768)
            rows = entry.song.each_stem(source.start, source.start + span, stems)
            for stem, gain, row in zip(stems, gains, rows, strict=True):
                shifted = source.shift.active and not entry.stem_is_drum[stem]
                sound = (row if shifted else row[:size]).astype(np.float32)
                sound *= gain
                target = entry.stem_is_target[stem]
                if filters is not None and target and filters.random() < augmentation.eq_prob:
                    sound = equalise(sound, filters, self._sample_rate)
                if not shifted:
                    audio += sound
                elif moved is None:
                    moved, shift = sound, source.shift
                else:
                    moved += sound
        if moved is not None and augmentation.pitch_shift_method != "device":
            audio += shift_audio(moved, shift, size)
            moved = None
        gain = draw_gains(rng, 1, augmentation.amp_range)
        audio *= gain
        return audio, None if moved is None else moved[:size] * gain

    def _share_gains(self, gains: Audio, units: list[np.float32], number: int) -> None:
        """Stems beyond ``max_subunit_stems`` take, in place, the gain of a random earlier one."""
        most = self._augmentation.xaug_max_subunit_stems
        for i, gain in enumerate(gains):
            if len(units) < most:
                units.append(gain)
            else:
                gains[i] = units[int(self._rng(f"unit{i}", number).integers(most))]

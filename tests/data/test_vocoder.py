"""The pitch shift of a batch on the device: measured pitch, level and time, and its place in a run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from amt.config import AudioConfig, Augmentation
from amt.data.augment.vocoder import shift_pitch
from amt.data.dataset import collate_samples
from amt.data.segments import SegmentMaker, TrainingSet
from amt.data.store import SongStore
from amt.tokenizer import NoteTokenizer

RATE = 16000
SIZE = 16000
SEMITONES = (-6, -1, 0, 2, 6)
SPEEDS = torch.tensor([2 ** (step / 12) for step in SEMITONES])
TIME = np.arange(SIZE) / RATE


def rows(audio: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.tile(audio.astype(np.float32), (len(SEMITONES), 1)))


def tone(pitch: float, level: float = 0.3) -> np.ndarray:
    return level * np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * TIME + pitch)


def decibels(one: np.ndarray, other: np.ndarray) -> float:
    return float(20 * np.log10(one.std() / other.std()))


@pytest.mark.parametrize("pitch", [40, 57, 69, 93])
def test_pitch_within_5_cents_and_level_within_1_db(pitch: int) -> None:
    shifted = shift_pitch(rows(tone(pitch)), SPEEDS).numpy()
    for audio, step in zip(shifted, SEMITONES, strict=True):
        inner = audio[2000:-2000]
        spectrum = np.abs(np.fft.rfft(inner * np.hanning(len(inner)), 1 << 18))
        heard = 69 + 12 * np.log2(spectrum.argmax() * RATE / (1 << 18) / 440)
        assert 100 * (heard - pitch - step) == pytest.approx(0, abs=5)
        assert decibels(inner, tone(pitch)) == pytest.approx(0, abs=1)


def test_every_partial_of_a_chord_keeps_its_level() -> None:
    pitches = (48, 55, 60, 64, 67)
    chord = np.sum([tone(pitch, 0.1) for pitch in pitches], axis=0)
    window = np.hanning(SIZE)
    before = np.abs(np.fft.rfft(chord * window, 1 << 17))
    for audio, step in zip(shift_pitch(rows(chord), SPEEDS).numpy(), SEMITONES, strict=True):
        after = np.abs(np.fft.rfft(audio * window, 1 << 17))
        for pitch in pitches:
            old, new = (
                spectrum[
                    int(440 * 2 ** ((at - 69.3) / 12) * 8.192) : int(440 * 2 ** ((at - 68.7) / 12) * 8.192)
                ].max()
                for spectrum, at in ((before, pitch), (after, pitch + step))
            )
            assert 20 * np.log10(new / old) == pytest.approx(0, abs=1)


def test_notes_begin_where_they_did() -> None:
    audio = np.zeros(SIZE)
    onsets = (0.1, 0.37, 0.62)
    fade = np.exp(-16 * np.arange(4000) / RATE)
    for onset in onsets:
        begin = int(onset * RATE)
        audio[begin : begin + 4000] += fade * (tone(52, 0.15) + tone(59, 0.15) + tone(64, 0.15))[:4000]
    for shifted in shift_pitch(rows(audio), SPEEDS).numpy():
        loud = np.flatnonzero(np.abs(shifted) > 0.12)
        starts = loud[np.concatenate(([True], np.diff(loud) > 1000))] / RATE
        assert starts == pytest.approx(onsets, abs=0.01)


def test_rows_do_not_touch_each_other_and_nothing_is_drawn() -> None:
    audio = torch.randn(4, 5000, generator=torch.Generator().manual_seed(0)) * 0.1
    speeds = torch.tensor([1.0, 1.2, 0.8, 1.2])
    shifted = shift_pitch(audio, speeds)
    torch.testing.assert_close(shifted[0], audio[0], rtol=0, atol=0)
    torch.testing.assert_close(shift_pitch(audio, speeds), shifted, rtol=0, atol=0)
    torch.testing.assert_close(shift_pitch(audio[1:2], speeds[1:2])[0], shifted[1], rtol=1e-4, atol=1e-5)
    assert not shift_pitch(torch.zeros(2, 5000), torch.tensor([1.2, 0.8])).any()
    for size in (0, 1, 100, 1023):
        short = shift_pitch(torch.ones(2, size), torch.tensor([1.2, 0.8]))
        assert short.shape == (2, size)
        assert torch.isfinite(short).all()


def maker(store: SongStore, method: str) -> tuple[SegmentMaker, NoteTokenizer, AudioConfig]:
    audio = AudioConfig(segment_samples=SIZE)
    tokenizer = NoteTokenizer.from_task("mc13_full_plus_256", segment_samples=SIZE)
    augmentation = Augmentation(
        amp_range=(0.8, 1.2),
        stem_keep_prob=0.6,
        xaug_max_k=1,
        pitch_shift_method=method,
        pitch_shift_detune=0.2,
    )
    sets = [TrainingSet(store.name, store, ("train",))]
    return SegmentMaker(sets, tokenizer, audio, augmentation, seed=3, sub_batch=4), tokenizer, audio


def loudest(audio: np.ndarray, begin: float, end: float, pitch: float) -> float:
    part = audio[int(begin * RATE) : int(end * RATE)]
    wave = np.exp(-2j * np.pi * 440 * 2 ** ((pitch - 69) / 12) * np.arange(len(part)) / RATE)
    return float(np.abs((part * np.hanning(len(part)) * wave).sum()))


def test_labels_hold_the_pitch_of_what_the_device_makes(tones: SongStore) -> None:
    make, tokenizer, audio = maker(tones, "device")
    plain, _, _ = maker(tones, "stretch")
    right = checked = apart = 0
    for first in range(0, 32, 8):
        samples = [make.make(number) for number in range(first, first + 8)]
        batch = collate_samples(samples, tokenizer, audio.segment_seconds)
        assert batch.moving is not None
        batch = pickle.loads(pickle.dumps(batch)).shifted()
        assert batch.moving is None
        assert batch.shifted() is batch
        assert float(batch.audio.abs().max()) <= 1.0
        for row, sample in zip(batch.audio[:, 0].numpy(), samples, strict=True):
            other = plain.make(sample.number)
            np.testing.assert_array_equal(sample.labels, other.labels)  # the draws are those of stretch
            apart += sample.moving is not None
            for note in sample.notes[~sample.notes["is_drum"]]:
                onset, offset, pitch = float(note["onset"]), float(note["offset"]), int(note["pitch"])
                if onset < 0.02 or offset > SIZE / RATE - 0.05 or offset - onset < 0.15:
                    continue
                found = [loudest(row, onset + 0.03, offset - 0.03, pitch + d) for d in (0.0, -1.0, 1.0)]
                checked += 1
                right += found[0] > 1.5 * max(found[1:])
    assert apart > 20
    assert checked > 25
    assert right / checked > 0.9


def test_drums_stay_where_they_are(make_store: object) -> None:
    store = make_store([128])  # type: ignore[operator]
    make, _, _ = maker(store, "device")
    plain, _, _ = maker(store, "stretch")
    for number in range(4):
        assert make.make(number).moving is None
        np.testing.assert_array_equal(make.make(number).audio, plain.make(number).audio)


def test_what_comes_after_the_shift_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--pitch-method device .* choose stretch"):
        Augmentation(pitch_shift_method="device", noise_prob=0.1)

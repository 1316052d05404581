"""Each augmentation by itself: distributions, laws, and edges."""

from __future__ import annotations

import numpy as np
import pytest

from amt.data.augment.codec import add_codec, band_limit, mu_law, transform_code
from amt.data.augment.cross import DRUM_CLASS, allowed_groups, draw_foreign_count, foreign_count_probabilities
from amt.data.augment.eq import draw_curve, equalise
from amt.data.augment.gain import draw_gains, guard_clipping
from amt.data.augment.noise import add_noise, coloured_noise
from amt.data.augment.pitch import PitchShift, draw_pitch_shift, semitone_choices, shift_audio, shift_notes
from amt.data.augment.room import add_room, room_response
from amt.data.augment.stems import choose_stems
from amt.data.augment.stretch import stretch
from amt.notes.note import NOTE_DTYPE

RATE = 16000


def measured_hz(audio: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio)), 1 << 18))
    return float(spectrum.argmax()) * RATE / (1 << 18)


def test_gains_stay_in_their_range_and_the_guard_only_scales_down() -> None:
    gains = draw_gains(np.random.default_rng(0), 5000, (0.7, 1.3))
    assert gains.dtype == np.float32
    assert 0.7 <= gains.min() < 0.72
    assert 1.28 < gains.max() <= 1.3
    assert gains.mean() == pytest.approx(1.0, abs=0.01)
    quiet = np.array([0.1, -0.5], np.float32)
    np.testing.assert_array_equal(guard_clipping(quiet.copy()), quiet)
    np.testing.assert_allclose(guard_clipping(np.array([0.5, -2.0], np.float32)), [0.25, -1.0])
    assert guard_clipping(np.zeros(0, np.float32)).size == 0


def test_stems_are_kept_with_their_probability() -> None:
    rng = np.random.default_rng(0)
    never = np.zeros(4, bool)
    kept = np.array([choose_stems(rng, 0.3, never, ~never) for _ in range(8000)])
    assert kept.any(axis=1).all()
    nothing = 0.7**4
    assert kept.mean(axis=0) == pytest.approx([0.3 + nothing / 4] * 4, abs=0.02)
    always = np.array([True, False, False, False])
    kept = np.array([choose_stems(rng, 0.3, always, always) for _ in range(8000)])
    assert kept.mean(axis=0) == pytest.approx([1.0, 0.3, 0.3, 0.3], abs=0.02)
    assert choose_stems(rng, 1.0, never, never).all()
    only = np.array([False, False, True, False])
    assert all(choose_stems(rng, 0.0, never, only).tolist() == only.tolist() for _ in range(50))
    silent = np.array([choose_stems(rng, 0.0, never, never) for _ in range(4000)])
    assert silent.sum(axis=1).tolist() == [1] * 4000
    assert silent.mean(axis=0) == pytest.approx([0.25] * 4, abs=0.03)
    assert choose_stems(rng, 0.5, np.zeros(0, bool), np.zeros(0, bool)).size == 0


def test_foreign_counts_have_the_published_probabilities() -> None:
    expected = [0.2592, 0.1920, 0.1422, 0.4066]
    probabilities = foreign_count_probabilities(3, 0.3)
    assert probabilities == pytest.approx(expected, abs=5e-5)
    rng = np.random.default_rng(0)
    drawn = np.bincount([draw_foreign_count(rng, probabilities) for _ in range(10_000)]) / 10_000
    assert drawn == pytest.approx(expected, abs=0.02)
    assert foreign_count_probabilities(2, 0.5, 2.0).sum() == pytest.approx(1.0)
    assert foreign_count_probabilities(0, 0.5) == pytest.approx([1.0])


def test_overlap_rules() -> None:
    groups = [frozenset({1}), frozenset({2, 3}), frozenset({DRUM_CLASS}), frozenset()]
    present = {3, DRUM_CLASS}

    def allowed(instr: bool, drum: bool) -> list[bool]:
        return allowed_groups(groups, present, no_instr_overlap=instr, no_drum_overlap=drum).tolist()

    assert allowed(True, True) == [True, False, False, True]
    assert allowed(True, False) == [True, False, False, True]
    assert allowed(False, True) == [True, True, False, True]
    assert allowed(False, False) == [True, True, True, True]


@pytest.mark.parametrize("semitones", [-6, -3, -1, 0, 2, 6])
@pytest.mark.parametrize("detune", [0.0, 0.1])
def test_measured_pitch_and_onset_shift_as_the_labels_do(semitones: int, detune: float) -> None:
    shift = PitchShift(semitones, detune)
    size = 24_000
    pitch, onset = 64, 0.3
    time = np.arange(shift.span(size) + 64) / RATE
    tone = np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * (time - onset)) * (time >= onset)
    played = shift_audio(tone.astype(np.float32), shift, size)
    assert played.dtype == np.float32
    assert len(played) == size
    notes = np.array([(onset, 9.0, pitch, 0, 100, False), (0.4, 0.41, 36, 128, 100, True)], dtype=NOTE_DTYPE)
    labels = shift_notes(notes, shift)
    assert labels["pitch"].tolist() == [pitch + semitones, 36]
    assert labels["onset"][1] == 0.4
    heard = np.flatnonzero(np.abs(played) > 0.1)[0] / RATE
    assert heard == pytest.approx(labels["onset"][0], abs=0.001)
    tail = played[int(labels["onset"][0] * RATE) + 2000 :]
    cents = 1200 * np.log2(measured_hz(tail) / (440 * 2 ** ((labels["pitch"][0] - 69) / 12)))
    assert cents == pytest.approx(100 * detune, abs=3)
    assert np.abs(tail).max() == pytest.approx(1.0, abs=0.03)


def test_up_then_down_returns_the_notes() -> None:
    rng = np.random.default_rng(0)
    notes = np.zeros(50, NOTE_DTYPE)
    notes["onset"] = rng.uniform(0, 2, 50)
    notes["offset"] = notes["onset"] + 0.2
    notes["pitch"] = rng.integers(10, 110, 50)
    notes["is_drum"] = rng.random(50) < 0.3
    for k in (1, 3, 6):
        back = shift_notes(shift_notes(notes, PitchShift(k, 0.1)), PitchShift(-k, -0.1))
        np.testing.assert_array_equal(back["pitch"], notes["pitch"])
        np.testing.assert_allclose(back["onset"], notes["onset"], atol=1e-12)
        np.testing.assert_allclose(back["offset"], notes["offset"], atol=1e-12)
    assert shift_notes(notes, PitchShift()) is notes


def test_pitches_that_leave_the_range_are_dropped_and_drums_stay() -> None:
    """Case D33."""
    rows = [(0.5 * i, 0.5 * i + 0.5, pitch, 0, 1, False) for i, pitch in enumerate((0, 1, 126, 127))]
    notes = np.array([*rows, (0.0, 0.01, 36, 128, 1, True), (0.0, 0.01, 127, 128, 1, True)], dtype=NOTE_DTYPE)
    assert shift_notes(notes, PitchShift(2))["pitch"].tolist() == [2, 3, 36, 127]
    assert shift_notes(notes, PitchShift(-2))["pitch"].tolist() == [124, 125, 36, 127]
    assert notes["pitch"].tolist() == [0, 1, 126, 127, 36, 127]


def test_shifts_are_uniform_whole_semitones() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_pitch_shift(rng, (-2.0, 2.0), 0.1) for _ in range(5000)]
    counts = np.bincount([shift.semitones + 2 for shift in drawn])
    assert counts / 5000 == pytest.approx([0.2] * 5, abs=0.025)
    assert max(abs(shift.detune) for shift in drawn) <= 0.1
    assert semitone_choices((-1.5, 0.9)) == (-1, 0)
    with pytest.raises(ValueError, match="no whole semitone"):
        semitone_choices((0.2, 0.8))


def test_shifting_up_folds_nothing_back() -> None:
    time = np.arange(40_000) / RATE
    tone = np.sin(2 * np.pi * 6000 * time).astype(np.float32)
    played = shift_audio(tone, PitchShift(6), 24_000)
    assert np.abs(played[500:-500]).max() < 0.05


def test_a_room_keeps_the_onset_and_adds_a_tail() -> None:
    audio = np.zeros(16_000, np.float32)
    audio[1000] = 0.5
    for seed in range(20):
        wet = add_room(audio, np.random.default_rng(seed), RATE)
        assert wet.shape == audio.shape
        assert wet.dtype == np.float32
        assert np.abs(wet[:1000]).max() < 1e-5
        assert wet[1000] == pytest.approx(0.5, abs=1e-5)
        assert int(np.abs(wet).argmax()) == 1000
        tail = float((wet[1001:] ** 2).sum()) / 0.25
        assert -18.2 <= 10 * np.log10(tail) <= -2.8
    response = room_response(np.random.default_rng(0), RATE)
    assert len(response) <= 0.5 * RATE
    early, late = response[400:1400], response[-1000:]
    assert (late**2).sum() < 0.01 * (early**2).sum()


def test_noise_has_its_level_and_colour() -> None:
    audio = np.sin(np.arange(24_000) * 0.1).astype(np.float32)
    for snr in (5.0, 20.0, 40.0):
        noisy = add_noise(audio, np.random.default_rng(1), (snr, snr))
        ratio = float((audio**2).sum() / ((noisy - audio) ** 2).sum())
        assert 10 * np.log10(ratio) == pytest.approx(snr, abs=0.1)
    for slope in (0.0, 1.0, 2.0):
        power = np.abs(np.fft.rfft(coloured_noise(np.random.default_rng(2), 1 << 16, slope))) ** 2
        low, high = power[500:1000].mean(), power[8000:16000].mean()
        assert np.log2(low / high) / 4 == pytest.approx(slope, abs=0.1)
    silence = np.zeros(100, np.float32)
    np.testing.assert_array_equal(add_noise(silence, np.random.default_rng(0), (5, 40)), silence)


def test_equalisation_is_smooth_bounded_and_keeps_time_and_power() -> None:
    clicks = np.zeros(16_000, np.float32)
    clicks[[3000, 9000]] = 1.0
    boosts = []
    for seed in range(60):
        heard = equalise(clicks, np.random.default_rng(seed), RATE)
        assert heard.dtype == np.float32
        assert np.dot(heard, heard) == pytest.approx(2.0, rel=1e-3)
        assert [int(np.abs(heard[:6000]).argmax()), int(np.abs(heard[6000:]).argmax())] == [3000, 3000]
        decibels = 20 * np.log10(draw_curve(np.random.default_rng(seed), 8001, RATE))
        assert np.abs(decibels).max() <= 15.01
        assert np.abs(np.diff(decibels[2000:])).max() < 0.03, "no steps between neighbouring bins"
        boosts.append(float(decibels[4000]))
    assert 5 < np.std(boosts) < 9
    silence = np.zeros(500, np.float32)
    np.testing.assert_array_equal(equalise(silence, np.random.default_rng(0), RATE), silence)


@pytest.mark.parametrize("semitones", [-6, -2, 2, 6])
@pytest.mark.parametrize("pitch", [40, 57, 81])
def test_a_shift_that_keeps_time_moves_only_the_pitch(semitones: int, pitch: int) -> None:
    """Pitch within 3 cents, level within 0.3 dB, onset within 10 ms, measured on the sound."""
    shift = PitchShift(semitones, keeps_time=True)
    size, onset = 24_000, 0.4
    frequency = 440 * 2 ** ((pitch - 69) / 12)
    time = np.arange(shift.span(size) + 64) / RATE
    tone = 0.5 * np.sin(2 * np.pi * frequency * (time - onset)) * (time >= onset)
    played = shift_audio(tone.astype(np.float32), shift, size)
    assert len(played) == size
    steady = slice(9_000, 23_000)
    cents = 1200 * np.log2(measured_hz(played[steady]) / (frequency * 2 ** (semitones / 12)))
    assert abs(cents) < 3
    assert 20 * np.log10(played[steady].std() / tone[steady].std()) == pytest.approx(0, abs=0.3)
    assert np.flatnonzero(np.abs(played) > 0.1)[0] / RATE == pytest.approx(onset, abs=0.010)
    notes = np.array([(onset, 1.0, pitch, 0, 100, False), (0.4, 0.41, 36, 128, 100, True)], dtype=NOTE_DTYPE)
    labels = shift_notes(notes, shift)
    assert labels["pitch"].tolist() == [pitch + semitones, 36]
    np.testing.assert_array_equal(labels["onset"], notes["onset"])
    np.testing.assert_array_equal(labels["offset"], notes["offset"])


def test_stretching_keeps_the_level_of_chords() -> None:
    time = np.arange(24_000) / RATE
    rng = np.random.default_rng(0)
    chord = sum(
        0.15 * np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * time + rng.uniform(0, 6))
        for pitch in (48, 55, 60, 64, 67)
    )
    chord = np.asarray(chord, np.float32)
    for factor in (0.7, 0.9, 1.12, 1.41):
        longer = stretch(chord, factor)
        assert len(longer) == int(np.ceil(24_000 * factor))
        assert 20 * np.log10(longer[800:-800].std() / chord.std()) == pytest.approx(0, abs=0.5)
    assert not stretch(np.zeros(1000, np.float32), 1.3).any()
    np.testing.assert_array_equal(stretch(chord, 1.0), chord)
    assert stretch(np.zeros(0, np.float32), 1.3).shape == (0,)
    assert np.isfinite(stretch(chord[:50], 1.3)).all()


def test_codecs_keep_time_pitch_and_level() -> None:
    time = np.arange(16_000) / RATE
    tone = (0.3 * np.sin(2 * np.pi * 660 * time) * (time >= 0.3)).astype(np.float32)
    for seed in range(12):
        coded = add_codec(tone, np.random.default_rng(seed), RATE)
        assert coded.dtype == np.float32
        assert coded.shape == tone.shape
        assert not np.array_equal(coded, tone)
        assert 1200 * np.log2(measured_hz(coded[5000:]) / 660) == pytest.approx(0, abs=2)
        assert coded[6000:].std() / tone[6000:].std() == pytest.approx(1, abs=0.12)
        assert np.flatnonzero(np.abs(coded) > 0.15)[0] / RATE == pytest.approx(0.3, abs=0.005)
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    power = np.abs(np.fft.rfft(band_limit(noise, 200, 4000, RATE))) ** 2
    assert power[:100].mean() < 1e-4 * power[1000:3000].mean()
    assert power[6000:].mean() < 1e-4 * power[1000:3000].mean()
    np.testing.assert_allclose(transform_code(noise, 100.0, 1.0), noise, atol=1e-4)
    loss = noise - mu_law(noise, 8)
    assert 25 < 20 * np.log10(noise.std() / loss.std()) < 50
    gone = transform_code(noise, 20.0, 0.5)
    assert np.abs(np.fft.rfft(gone)[6000:]).mean() < 0.02 * np.abs(np.fft.rfft(noise)[6000:]).mean()
    silence = np.zeros(700, np.float32)
    np.testing.assert_array_equal(add_codec(silence, np.random.default_rng(0), RATE), silence)

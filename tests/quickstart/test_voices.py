"""The singers: pitch and onsets of the labels against what the sound itself says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from amt.quickstart import singers, songs, voices

RATE = singers.SAMPLE_RATE
ENGINES = (*singers.TRAINING_ENGINES, singers.HELD_OUT_ENGINE)
CENTS = np.arange(0, 1200 * 6.5, 10.0)
GRID = 90 * 2 ** (CENTS / 1200)


def made_up_tune() -> songs.Tune:
    rng = np.random.default_rng(3)
    steps = rng.choice([-3, -2, -1, 0, 1, 2, 3, 5, -5], 40)
    pitches = np.clip(66 + np.cumsum(steps), 62, 76)
    lengths = rng.choice([0.5, 1.0, 1.0, 1.5, 2.0], 40)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    notes = tuple(
        songs.ScoreNote(float(s), float(d), int(p), i % 9 == 8)
        for i, (s, d, p) in enumerate(zip(starts, lengths, pitches, strict=True))
    )
    return songs.Tune("made/up", "folk", notes, (), 4.0, 0.0)


def sung(engine: str, number: int) -> tuple[singers.Singer, singers.VoicePlan, np.random.Generator]:
    singer = singers.make_singer(7, f"check-{engine}", number, (engine,))
    rng = songs.generator(7, engine, number)
    performance = songs.perform(made_up_tune(), *singer.range, rng, 25.0, (80.0, 110.0), False)
    samples = int(performance.seconds * RATE)
    return singer, singers.plan_voice(performance, singer, samples, rng), rng


def tracked_pitch(sound: np.ndarray) -> float:
    """Subharmonic summation (Hermes 1988), then a check whether a half or third fits as well."""
    size = 16384
    spectrum = np.abs(np.fft.rfft((sound - sound.mean()) * np.hanning(len(sound)), size))
    compressed = np.interp(GRID, np.arange(len(spectrum)) * RATE / size, spectrum) ** 0.7
    score = np.zeros(len(GRID))
    for k in range(1, 9):
        shift = round(120 * np.log2(k))
        score[: len(score) - shift] += 0.82 ** (k - 1) * compressed[shift:]
    allowed = (GRID >= 100) & (GRID <= 1100)
    pitch = float(GRID[allowed][np.argmax(score[allowed])])

    def level(frequency: float) -> float:
        return float(
            spectrum[int(frequency * 0.975 * size / RATE) : int(frequency * 1.025 * size / RATE) + 2].max()
        )

    for divisor in (3, 2):
        low = pitch / divisor
        if low >= 95 and np.sqrt(level(low) * level(low * (divisor + 1))) > 0.12 * level(pitch):
            return low
    return pitch


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pitch_tracker_finds_the_labelled_pitch(engine: str) -> None:
    right = total = 0
    for number in range(3):
        singer, plan, rng = sung(engine, number)
        voice = voices.sing(plan, singer, rng)
        for note in plan.notes:
            expected = 440 * 2 ** ((note.pitch - 69) / 12)
            length, begin = max(0.05, 6 / expected), note.onset + 0.25 * (note.offset - note.onset)
            end = max(begin + length, note.offset - 0.2 * (note.offset - note.onset))
            starts = np.arange(begin, end - length + 1e-9, 0.03)
            found = sorted(tracked_pitch(voice[int(t * RATE) : int((t + length) * RATE)]) for t in starts)
            cents = 1200 * np.log2(found[len(found) // 2] / expected)
            right += abs(cents) <= 50
            total += 1
    assert total > 60
    assert right / total >= 0.98


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_start_with_the_voiced_sound(engine: str) -> None:
    checked = 0
    for number in range(3):
        singer, plan, rng = sung(engine, number)
        voice = voices.sing(replace(plan, bursts=()), singer, rng)  # consonant noise is not voiced
        for before, note in zip((None, *plan.notes), plan.notes, strict=False):
            gap = note.onset - (before.offset if before else 0.0)
            if note.start in ("legato", "nasal") or gap < 0.012:
                continue
            begin = round((note.onset - min(gap, 0.05)) * RATE)
            stretch = np.abs(voice[begin : round((note.onset + 0.1) * RATE)])
            loud = np.sqrt(np.mean(voice[round(note.onset * RATE) : round(note.offset * RATE)] ** 2))
            first = (begin + int(np.argmax(stretch > 0.1 * loud))) / RATE
            assert abs(first - note.onset) < 0.010, (engine, number, note)
            checked += 1
    assert checked > 20


def test_notes_follow_each_other_and_glides_meet_at_the_label() -> None:
    legato = 0
    for number in range(6):
        _, plan, _ = sung("cascade", number)
        for before, note in zip(plan.notes, plan.notes[1:], strict=False):
            assert before.onset < before.offset <= note.onset + 1e-9
            if note.start == "legato":
                assert note.pitch != before.pitch
                here = 69 + 12 * np.log2(plan.f0[round(note.onset * RATE / singers.HOP)] / 440)
                low, high = sorted((before.pitch, note.pitch))
                assert low - 1.0 < here < high + 1.0
                legato += 1
    assert legato > 5


def test_singers_follow_from_their_name_alone_and_differ() -> None:
    some = [singers.make_singer(1, "a", i, singers.TRAINING_ENGINES) for i in range(24)]
    assert some[5] == singers.make_singer(1, "a", 5, singers.TRAINING_ENGINES)
    assert len({s.vibrato_rate for s in some}) == 24
    assert len({(s.engine, s.kind) for s in some}) == 12

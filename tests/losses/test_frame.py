"""Targets and terms of the frame head against a loop over notes and frames."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from amt.config.model import FRAME_GROUPS
from amt.losses import NoteColumns, frame_loss
from amt.losses.frame import pitch_targets, voice_targets

SECONDS = 0.0375
FRAMES = 41


def columns(rows):
    table = torch.tensor(rows, dtype=torch.float32).reshape(-1, 6)
    return NoteColumns(*table.T)


def random_notes(count=40, samples=3, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        onset = rng.uniform(-0.4, 1.5)
        rows.append(
            [
                rng.integers(samples),
                onset,
                onset + rng.uniform(0.01, 0.7),
                rng.integers(15, 115),
                rng.choice([0, 33, 100, 101]),
                rng.random() < 0.2,
            ]
        )
    return columns(rows)


def frame_of(seconds):
    return int(torch.round(torch.tensor(seconds, dtype=torch.float32) / SECONDS))


def loop_targets(notes, chosen, samples):
    classes = np.zeros((samples, FRAMES), np.int64)
    voice_onsets = np.zeros((samples, FRAMES), np.float32)
    sounding = np.zeros((samples, FRAMES, 88), np.float32)
    onsets = np.zeros((samples, FRAMES, 88), np.float32)
    for index in np.argsort(notes.onset.numpy(), kind="stable"):
        pitch = int(notes.pitch[index]) - 21
        if not chosen[index] or not 0 <= pitch < 88:
            continue
        sample, first = int(notes.sample[index]), frame_of(float(notes.onset[index]))
        last = max(frame_of(float(notes.offset[index])), first + 1)
        for frame in range(max(first, 0), min(last, FRAMES)):
            classes[sample, frame] = pitch + 1
            sounding[sample, frame, pitch] = 1
        if notes.onset[index] >= 0 and first < FRAMES:
            voice_onsets[sample, first] = 1
            onsets[sample, first, pitch] = 1
    return classes, voice_onsets, sounding, onsets


@pytest.mark.parametrize("seed", range(5))
def test_targets_equal_a_loop(seed):
    notes = random_notes(seed=seed)
    chosen = notes.program >= 100
    classes, voice_onsets, sounding, onsets = loop_targets(notes, chosen, 3)
    found_classes, found_onsets = voice_targets(notes, chosen, 3, FRAMES, SECONDS)
    assert np.array_equal(found_classes.numpy(), classes)
    assert np.array_equal(found_onsets.numpy(), voice_onsets)
    found_sounding, found_onsets = pitch_targets(notes, chosen, 3, FRAMES, SECONDS)
    assert np.array_equal(found_sounding.numpy(), sounding)
    assert np.array_equal(found_onsets.numpy(), onsets)


def test_the_note_that_started_last_wins():
    notes = columns([[0, 0.5, 1.0, 60, 100, 0], [0, 0.2, 1.2, 64, 100, 0]])
    classes, _ = voice_targets(notes, torch.ones(2, dtype=torch.bool), 1, FRAMES, SECONDS)
    assert classes[0, frame_of(0.7)] == 60 - 21 + 1
    assert classes[0, frame_of(0.3)] == 64 - 21 + 1
    assert classes[0, frame_of(1.1)] == 64 - 21 + 1


def test_each_note_belongs_to_one_group():
    groups = ("voice", "pitched", "drums")
    logits = torch.zeros(1, FRAMES, sum(FRAME_GROUPS[group] for group in groups))
    empty = frame_loss(logits, columns([]), groups, SECONDS)
    assert sorted(empty) == [
        "frame_drums_onset",
        "frame_pitched_onset",
        "frame_pitched_pitch",
        "frame_voice_onset",
        "frame_voice_pitch",
    ]
    for row, changed in (
        ([0, 0.5, 1.0, 60, 100, 0], {"frame_voice_onset"}),
        ([0, 0.5, 1.0, 60, 33, 0], {"frame_pitched_pitch", "frame_pitched_onset"}),
        ([0, 0.5, 1.0, 38, 128, 1], {"frame_drums_onset"}),
    ):
        found = frame_loss(logits, columns([row]), groups, SECONDS)
        different = {name for name in empty if not torch.equal(found[name], empty[name])}
        assert different == changed


def test_voice_terms_against_torch():
    notes = random_notes(seed=7)
    logits = torch.randn(3, FRAMES, FRAME_GROUPS["voice"])
    voice = (notes.program >= 100) & (notes.is_drum < 0.5)
    classes, onsets, _, _ = loop_targets(notes, voice, 3)
    terms = frame_loss(logits, notes, ("voice",), SECONDS)
    expected = F.nll_loss(
        torch.log_softmax(logits[..., :89], -1).flatten(0, 1), torch.tensor(classes).flatten()
    )
    torch.testing.assert_close(terms["frame_voice_pitch"], expected)
    probability = torch.sigmoid(logits[..., 89])
    target = torch.tensor(onsets)
    bce = -(5 * target * probability.log() + (1 - target) * (1 - probability).log()).mean()
    torch.testing.assert_close(terms["frame_voice_onset"], bce)


def test_right_logits_cost_next_to_nothing():
    notes = random_notes(seed=3)
    chosen = (notes.is_drum < 0.5) & (notes.program < 100)
    sounding, onsets = pitch_targets(notes, chosen, 3, FRAMES, SECONDS)
    logits = (torch.cat([sounding, onsets], -1) * 2 - 1) * 20
    terms = frame_loss(logits, notes, ("pitched",), SECONDS)
    assert max(float(term) for term in terms.values()) < 1e-5

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


def octaves_moved(notes, samples):
    """The notes with those of some samples an octave up, where the head has such a pitch."""
    up = torch.tensor([sample in samples for sample in notes.sample.tolist()]) & (notes.pitch < 97)
    return notes._replace(pitch=torch.where(up & (notes.pitch >= 21), notes.pitch + 12, notes.pitch))


@pytest.mark.parametrize("group", ["voice", "pitched"])
def test_of_a_sample_of_free_octave_only_the_pitch_class_is_taught(group):
    notes = random_notes(count=8, seed=5)._replace(is_drum=torch.zeros(8))
    moved = octaves_moved(notes, {1})
    assert not torch.equal(moved.pitch, notes.pitch)
    logits = torch.randn(3, FRAMES, FRAME_GROUPS[group], requires_grad=True)
    free = torch.tensor([False, True, False])
    right, wrong = (frame_loss(logits, item, (group,), SECONDS, octave_free=free) for item in (notes, moved))
    plain = frame_loss(logits, moved, (group,), SECONDS)
    for name in right:
        torch.testing.assert_close(right[name], wrong[name])
    assert plain[f"frame_{group}_pitch"] != wrong[f"frame_{group}_pitch"]
    nobody = frame_loss(logits, moved, (group,), SECONDS, octave_free=torch.zeros(3, dtype=torch.bool))
    for name, value in plain.items():
        torch.testing.assert_close(nobody[name], value)


def test_folded_voice_pitches_against_sums_of_probabilities():
    notes = random_notes(count=6, samples=1, seed=2)._replace(program=torch.full((6,), 100.0))
    chosen = notes.is_drum < 0.5
    classes = loop_targets(notes, chosen, 1)[0][0]
    logits = torch.randn(1, FRAMES, FRAME_GROUPS["voice"])
    probabilities = torch.softmax(logits[0, :, :89].double(), -1).numpy()
    expected = []
    for frame, label in enumerate(classes):
        same = [0] if label == 0 else [k for k in range(1, 89) if (k - label) % 12 == 0]
        expected.append(-np.log(probabilities[frame, same].sum()))
    found = frame_loss(logits, notes, ("voice",), SECONDS, octave_free=torch.tensor([True]))
    assert float(found["frame_voice_pitch"]) == pytest.approx(float(np.mean(expected)), rel=1e-5)


@pytest.mark.parametrize("size", [0.0, 1.0, 300.0])
def test_folded_pitches_against_products_of_probabilities_and_at_extreme_logits(size):
    notes = random_notes(count=6, samples=1, seed=2)._replace(program=torch.full((6,), 33.0))
    chosen = notes.is_drum < 0.5
    _, _, sounding, _ = loop_targets(notes, chosen, 1)
    logits = (torch.randn(1, FRAMES, 176) * size).requires_grad_()
    terms = frame_loss(logits, notes, ("pitched",), SECONDS, octave_free=torch.tensor([True]))
    found = terms["frame_pitched_pitch"]
    (found + terms["frame_pitched_onset"]).backward()
    assert torch.isfinite(logits.grad).all()
    if size > 1:
        return
    silent = 1 - torch.sigmoid(logits[0, :, :88].detach().double()).numpy()
    total = positives = 0.0
    for frame in range(FRAMES):
        for pitch_class in range(12):
            quiet = silent[frame, pitch_class::12].prod()
            sounds = sounding[0, frame, pitch_class::12].any()
            total -= np.log(1 - quiet) if sounds else np.log(quiet)
            positives += sounds
    assert float(found.detach()) == pytest.approx(total / (FRAMES + positives), rel=1e-5)

"""Loss of the frame head: what sounds in each frame of the encoder states, an aid to learning.

Axes: B batch, T frames, P pitches, M notes. Targets are built on the device of the logits, without a loop
over notes and without waiting for the device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config.model import FRAME_GROUPS, FRAME_MIN_PITCH, FRAME_NUM_PITCHES
from ..config.names import unknown_name
from ..notes.note import CHORUS_PROGRAM, SINGING_PROGRAM
from .scores import NUM_PITCH_CLASSES, log_totals, octave_scores

ONSET_POS_WEIGHT = 5.0
"""Weight of a frame with an onset against one without."""
NUM_DRUM_PITCHES = FRAME_GROUPS["drums"]
_VOICE_PITCHES = range(1, 1 + FRAME_NUM_PITCHES)
"""Classes of the voice's pitches; 0 is silence."""
_LINEAR, _TINY, _SILENT = 30.0, 1e-30, 1e4
"""Above the first, log(exp(x) - 1) is x in float32; below the second x is held there, so that the logarithm
stays finite; the third as a logit is no probability at all."""


class NoteColumns(NamedTuple):
    """The notes of a batch, one value each per note: (M,) tensors."""

    sample: Tensor
    """Index of the note's sample in the batch."""
    onset: Tensor
    """Seconds from the start of the sample's window; may be negative."""
    offset: Tensor
    pitch: Tensor
    program: Tensor
    is_drum: Tensor


class _Samples(NamedTuple):
    """What is known of the samples of a batch."""

    known: Tensor | None
    """(B,) float32: 0 for samples that are left out; None: all count."""
    octave_free: Tensor | None
    """(B, 1) bool: only pitch classes are taught; None: of no sample."""

    def mean(self, losses: Tensor) -> Tensor:
        """Mean of (B, T) losses over the frames that count; 0 when none does."""
        if self.known is None:
            return losses.mean()
        return (losses * self.known.unsqueeze(-1)).sum() / (self.known.sum() * losses.shape[1]).clamp(min=1)


class _Cover(NamedTuple):
    """Which frames each note covers."""

    sample: Tensor
    """(M,) int64."""
    pitch: Tensor
    """(M,) int64."""
    sounding: Tensor
    """(M, T) bool."""
    onset: Tensor
    """(M, T) bool: the frame nearest to the onset, when it lies in the window."""


def frame_loss(
    logits: Tensor,
    notes: NoteColumns,
    groups: tuple[str, ...],
    seconds_per_frame: float,
    known: Tensor | None = None,
    octave_free: Tensor | None = None,
) -> dict[str, Tensor]:
    """The terms of every group of the frame head, in float32.

    Args:
        logits: (B, T, O), the groups' outputs one after the other (``FRAME_GROUPS`` gives the widths).
        notes: target notes of the batch.
        groups: names of the groups, in the order of the outputs.
        seconds_per_frame: time between frames; frame t stands for t times that.
        known: (B,) bool, False for samples that are left out because something sounds in them without notes;
            None: all count.
        octave_free: (B,) bool, samples whose notes may sound in any octave: of a pitch class it is taught
            that it sounds, or begins, in one of them; None: no sample.

    Returns:
        Term name to scalar. ``voice``: ``frame_voice_pitch`` (cross-entropy over silence and 88 pitches,
        the note that started last wins) and ``frame_voice_onset``; ``pitched``: ``frame_pitched_pitch``
        and ``frame_pitched_onset``; ``drums``: ``frame_drums_onset``.
    """
    assert logits.shape[-1] == sum(FRAME_GROUPS[group] for group in groups)
    parts = torch.split(logits.float(), [FRAME_GROUPS[group] for group in groups], dim=-1)
    drum = notes.is_drum > 0.5
    voice = ~drum & ((notes.program == SINGING_PROGRAM) | (notes.program == CHORUS_PROGRAM))
    samples = _Samples(
        None if known is None else known.to(logits.device, torch.float32),
        None if octave_free is None else octave_free.to(logits.device).view(-1, 1),
    )
    terms: dict[str, Tensor] = {}
    for group, part in zip(groups, parts, strict=True):
        if group == "voice":
            terms |= _voice_terms(part, notes, voice, seconds_per_frame, samples)
        elif group == "pitched":
            terms |= _pitched_terms(part, notes, ~drum & ~voice, seconds_per_frame, samples)
        elif group == "drums":
            terms |= _drum_terms(part, notes, drum, seconds_per_frame, samples)
        else:
            raise unknown_name("frame head group", group, FRAME_GROUPS)
    return terms


def voice_targets(
    notes: NoteColumns, chosen: Tensor, num_samples: int, num_frames: int, seconds_per_frame: float
) -> tuple[Tensor, Tensor]:
    """(B, T) int64 classes (0 silence, 1 + pitch - 21) and (B, T) float32 onsets of the chosen notes.

    Of several notes in one frame the one that started last is taken.
    """
    cover = _cover(notes, chosen, num_frames, seconds_per_frame, FRAME_MIN_PITCH, FRAME_NUM_PITCHES)
    order = torch.argsort(notes.onset, stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(1, len(order) + 1, device=order.device))
    rows = cover.sample.unsqueeze(-1).expand_as(cover.sounding)
    latest = torch.zeros(num_samples, num_frames, dtype=torch.int64, device=order.device)
    latest = latest.scatter_reduce(0, rows, cover.sounding * rank.unsqueeze(-1), "amax")
    classes = torch.cat([order.new_zeros(1), cover.pitch[order] + 1])
    onsets = torch.zeros(num_samples, num_frames, device=order.device)
    onsets = onsets.scatter_reduce(0, rows, cover.onset.float(), "amax")
    return classes[latest], onsets


def pitch_targets(
    notes: NoteColumns,
    chosen: Tensor,
    num_samples: int,
    num_frames: int,
    seconds_per_frame: float,
    min_pitch: int = FRAME_MIN_PITCH,
    num_pitches: int = FRAME_NUM_PITCHES,
) -> tuple[Tensor, Tensor]:
    """(B, T, P) float32 of sounding pitches and (B, T, P) of onsets of the chosen notes."""
    cover = _cover(notes, chosen, num_frames, seconds_per_frame, min_pitch, num_pitches)
    frames = torch.arange(num_frames, device=cover.sample.device)
    places = (
        (cover.sample.unsqueeze(-1) * num_frames + frames) * num_pitches + cover.pitch.unsqueeze(-1)
    ).flatten()
    empty = torch.zeros(num_samples * num_frames * num_pitches, device=cover.sample.device)
    shape = (num_samples, num_frames, num_pitches)
    sounding = empty.scatter_reduce(0, places, cover.sounding.float().flatten(), "amax").view(shape)
    onsets = empty.scatter_reduce(0, places, cover.onset.float().flatten(), "amax").view(shape)
    return sounding, onsets


def _cover(
    notes: NoteColumns,
    chosen: Tensor,
    num_frames: int,
    seconds_per_frame: float,
    min_pitch: int,
    num_pitches: int,
) -> _Cover:
    frames = torch.arange(num_frames, device=notes.onset.device)
    first = torch.round(notes.onset / seconds_per_frame).long()
    last = torch.maximum(torch.round(notes.offset / seconds_per_frame).long(), first + 1)
    pitch = notes.pitch.long() - min_pitch
    valid = (chosen & (pitch >= 0) & (pitch < num_pitches)).unsqueeze(-1)
    sounding = valid & (frames >= first.unsqueeze(-1)) & (frames < last.unsqueeze(-1))
    onset = valid & (frames == first.unsqueeze(-1)) & (notes.onset >= 0).unsqueeze(-1)
    return _Cover(notes.sample.long(), pitch.clamp(0, num_pitches - 1), sounding, onset)


def _voice_terms(
    logits: Tensor, notes: NoteColumns, chosen: Tensor, seconds: float, samples: _Samples
) -> dict[str, Tensor]:
    classes, onsets = voice_targets(notes, chosen, logits.shape[0], logits.shape[1], seconds)
    pitch_logits, onset_logits = logits[..., : FRAME_NUM_PITCHES + 1], logits[..., FRAME_NUM_PITCHES + 1]
    pitch = F.cross_entropy(pitch_logits.flatten(0, 1), classes.flatten(), reduction="none").view_as(classes)
    if samples.octave_free is not None:
        folded = log_totals(pitch_logits) - octave_scores(pitch_logits, classes, _VOICE_PITCHES)
        pitch = torch.where(samples.octave_free & (classes > 0), folded, pitch)
    weight = logits.new_tensor(ONSET_POS_WEIGHT)
    onset = F.binary_cross_entropy_with_logits(onset_logits, onsets, pos_weight=weight, reduction="none")
    return {"frame_voice_pitch": samples.mean(pitch), "frame_voice_onset": samples.mean(onset)}


def _pitched_terms(
    logits: Tensor, notes: NoteColumns, chosen: Tensor, seconds: float, samples: _Samples
) -> dict[str, Tensor]:
    sounding, onsets = pitch_targets(notes, chosen, logits.shape[0], logits.shape[1], seconds)
    pitch_logits, onset_logits = torch.split(logits, FRAME_NUM_PITCHES, dim=-1)
    if samples.octave_free is not None:
        pitch_logits, sounding = _fold_octaves(pitch_logits, sounding, samples.octave_free)
        onset_logits, onsets = _fold_octaves(onset_logits, onsets, samples.octave_free)
    return {
        "frame_pitched_pitch": _multi_hot_loss(pitch_logits, sounding, 1.0, samples.known),
        "frame_pitched_onset": _multi_hot_loss(onset_logits, onsets, ONSET_POS_WEIGHT, samples.known),
    }


def _fold_octaves(logits: Tensor, targets: Tensor, octave_free: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and targets (B, T, 88) in whose free samples the first 12 places stand for pitch classes.

    A class sounds unless all its pitches are silent: ``P = 1 - prod (1 - p)``, a logit of
    ``log(exp(sum of softplus) - 1)``. The places behind are silent for sure and add nothing.
    """
    shape = (*logits.shape[:-1], -1, NUM_PITCH_CLASSES)
    missing = -FRAME_NUM_PITCHES % NUM_PITCH_CLASSES
    quiet = F.pad(F.softplus(logits), (0, missing)).view(shape).sum(-2)
    folded = torch.where(quiet > _LINEAR, quiet, quiet.clamp(_TINY, _LINEAR).expm1().log())
    sounds = F.pad(targets, (0, missing)).view(shape).amax(-2)
    behind = (0, FRAME_NUM_PITCHES - NUM_PITCH_CLASSES)
    free = octave_free.unsqueeze(-1)
    return (
        torch.where(free, F.pad(folded, behind, value=-_SILENT), logits),
        torch.where(free, F.pad(sounds, behind), targets),
    )


def _drum_terms(
    logits: Tensor, notes: NoteColumns, chosen: Tensor, seconds: float, samples: _Samples
) -> dict[str, Tensor]:
    _, onsets = pitch_targets(
        notes, chosen, logits.shape[0], logits.shape[1], seconds, min_pitch=0, num_pitches=NUM_DRUM_PITCHES
    )
    return {"frame_drums_onset": _multi_hot_loss(logits, onsets, ONSET_POS_WEIGHT, samples.known)}


def _multi_hot_loss(logits: Tensor, targets: Tensor, pos_weight: float, known: Tensor | None) -> Tensor:
    """Binary cross-entropy summed over everything and divided by frames + positives.

    A mean over pitches would drown the few that sound; a plain sum would drown the other terms.
    """
    counted = None if known is None else known.view(-1, 1, 1)
    total = F.binary_cross_entropy_with_logits(
        logits, targets, counted, pos_weight=logits.new_tensor(pos_weight), reduction="sum"
    )
    if counted is None:
        return total / (logits.shape[0] * logits.shape[1] + targets.sum())
    return total / (counted.sum() * logits.shape[1] + (targets * counted).sum()).clamp(min=1)

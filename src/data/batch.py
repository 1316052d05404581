"""The typed records that travel from the data path to training and validation.

Axes: B batch, C channels, N tokens, S samples, M notes, W windows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..notes.note import NoteArray
from .augment.vocoder import shift_pitch
from .slots import SlotPlace, received, sent

NOTE_COLUMNS = ("sample", "onset", "offset", "pitch", "program", "is_drum")
"""Columns of ``Batch.notes``. Onset and offset are seconds from the start of the sample's window and
may lie outside it (a note that sounds on); ``program`` is the note's own MIDI program."""


@dataclass
class Batch:
    """Training segments of one rank and step."""

    audio: Tensor
    """(B, 1, S) float32 in [-1, 1]."""
    labels: Tensor
    """(B, C, N) int64 token ids, PAD 0, N one of the bucket lengths."""
    notes: Tensor
    """(M, 6) float32: the target notes that sound in each window, columns ``NOTE_COLUMNS``."""
    dataset_index: Tensor
    """(B,) int64: which data set of the run each sample is from."""
    sample_number: Tensor
    """(B,) int64: global sample number, the key of every draw of the sample."""
    octave_unknown: Tensor
    """(B,) bool: the store does not know the absolute octave of this sample's notes."""
    channel_annotated: Tensor
    """(B, C) bool: False where a channel's instruments are not annotated: its label teaches nothing."""
    channel_complete: Tensor
    """(B, C) bool: False where some instruments of a channel are not annotated: its label's notes are true,
    but not its silence."""
    num_truncated: Tensor
    """() int64: label sequences that were too long and are cut."""
    fully_annotated: Tensor | None = None
    """(B,) bool: False where a target instrument of the task sounds without notes; None: true of all."""
    moving: Tensor | None = None
    """(B, 1, S) further sound that is still to be shifted in pitch (:meth:`shifted`); None: there is none."""
    speeds: Tensor | None = None
    """(B,) what its frequencies are multiplied by."""

    def __post_init__(self) -> None:
        assert self.audio.dtype == torch.float32
        assert self.labels.dtype == torch.int64

    def shifted(self) -> Batch:
        """The batch with ``moving`` shifted, where it lies, and added to ``audio``, all within [-1, 1]."""
        if self.moving is None:
            return self
        assert self.speeds is not None
        audio = self.audio + shift_pitch(self.moving[:, 0], self.speeds)[:, None]
        audio = audio / audio.abs().amax(-1, keepdim=True).clamp_min(1.0)
        return dataclasses.replace(self, audio=audio, moving=None, speeds=None)

    def pin_memory(self) -> Batch:
        """A copy in page-locked memory (the loader's ``pin_memory`` calls this)."""
        fields = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        pinned = {
            name: value.pin_memory() if isinstance(value, Tensor) else value for name, value in fields.items()
        }
        return Batch(**pinned)

    def __getstate__(self) -> dict[str, Any]:
        """Small tensors travel inside the message, sound in memory that both processes have."""
        state: dict[str, Any] = {}
        for name, value in self.__dict__.items():
            if value is not None:
                value = sent(value) if name in ("audio", "moving") else value.numpy(force=True)
            state[name] = value
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value = torch.from_numpy(value)
            elif isinstance(value, SlotPlace):
                value = received(value)
            self.__dict__[name] = value


@dataclass
class ValidationItem:
    """One whole song, or (``valid`` False) an empty place that keeps ranks equal in number."""

    valid: bool
    set_index: int
    """Which evaluation set of the run it belongs to."""
    song_id: str
    audio: Tensor
    """(W, 1, S) float32: windows back to back from the start, the last one padded with zeros."""
    labels: Tensor
    """(W, C, N) int64 token ids of the reference, task tokens of the sub-task first."""
    notes: NoteArray
    """Reference notes of the task and sub-task that are scored, seconds from the start of the song."""
    num_samples: int
    """Length of the sound, without the padding of the last window."""
    subtask: str | None = None
    """What is asked for in a task with sub-tasks."""
    known_programs: npt.NDArray[np.bool_] | None = None
    """(129,) False for programs that may sound without notes; None: all are known."""
    channel_annotated: npt.NDArray[np.bool_] | None = None
    """(C,) as in :class:`Batch`; None: all are."""
    channel_complete: npt.NDArray[np.bool_] | None = None
    """(C,) as in :class:`Batch`; None: all are."""

    def pin_memory(self) -> ValidationItem:
        """A copy with its tensors in page-locked memory."""
        return dataclasses.replace(self, audio=self.audio.pin_memory(), labels=self.labels.pin_memory())

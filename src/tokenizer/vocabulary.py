"""Which token id means what, for one task and segment length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..config.audio import max_shift_steps
from ..config.names import unknown_name
from ..config.tasks import Task
from ..config.vocabularies import get_drum_vocab, get_program_vocab, representatives

SPECIAL_TOKENS = ("PAD", "EOS", "UNK")
PAD_ID, EOS_ID, UNK_ID = range(3)
NUM_PITCHES = 128
NUM_PROGRAMS = 128
NO_CHANNEL = -1


@dataclass(frozen=True)
class TokenLayout:
    """Consecutive id ranges: special tokens, task tokens, shift, pitch, velocity, tie, program, drum."""

    extra_tokens: tuple[str, ...]
    """Names of the task tokens; ids from 3."""
    num_shifts: int
    """Number of shift tokens; they move every later id."""

    @property
    def _sizes(self) -> dict[str, int]:
        return {
            "special": len(SPECIAL_TOKENS),
            "extra": len(self.extra_tokens),
            "shift": self.num_shifts,
            "pitch": NUM_PITCHES,
            "velocity": 2,
            "tie": 1,
            "program": NUM_PROGRAMS,
            "drum": NUM_PITCHES,
        }

    @property
    def size(self) -> int:
        """Number of token ids."""
        return sum(self._sizes.values())

    def token_range(self, kind: str) -> range:
        """Ids of one kind: special, extra, shift, pitch, velocity, tie, program or drum."""
        first = 0
        for name, size in self._sizes.items():
            if name == kind:
                return range(first, first + size)
            first += size
        raise unknown_name("token kind", kind, self._sizes)

    def describe(self, token: int) -> str:
        """A token as text, such as ``pitch 60``, ``EOS`` or ``tie``."""
        for kind in self._sizes:
            ids = self.token_range(kind)
            if token in ids:
                value = token - ids.start
                names = {"special": SPECIAL_TOKENS, "extra": self.extra_tokens, "tie": ("tie",)}.get(kind)
                return names[value] if names else f"{kind} {value}"
        return f"unknown {token}"


@dataclass(frozen=True)
class EncodingTables:
    """Lookup arrays of one task: what a program or drum pitch becomes, and its channel."""

    layout: TokenLayout
    num_channels: int
    shift_start: int
    tie_id: int
    velocity_start: int
    program_class: npt.NDArray[np.int64]
    """(129,) program before the events are built: its class if the task merges classes, else itself."""
    program_token: npt.NDArray[np.int64]
    """(129,) token of a program; programs outside every class keep their own."""
    last_token: npt.NDArray[np.int64]
    """(1024,) token that ends an item. Four tables of 256, for a tie, the end of the ties, an event and
    the end: the token of a pitch, at 128 + pitch that of a drum."""
    has_program: npt.NDArray[np.bool_]
    """(1024,) whether the item uses the program state."""
    channel: npt.NDArray[np.int64]
    """(129,) channel of a program, ``NO_CHANNEL`` for none; 128 is drums."""
    has_class: npt.NDArray[np.bool_]
    """(129,) whether a program belongs to a class of the task and, where there are channels, has one."""


def build_tables(task: Task, segment_samples: int, sample_rate: int) -> EncodingTables:
    """The tables of a task for segments of that many samples."""
    layout = TokenLayout(task.extra_tokens, max_shift_steps(segment_samples, sample_rate))
    mapped = np.arange(NUM_PROGRAMS + 1, dtype=np.int64)
    has_class = np.zeros(NUM_PROGRAMS + 1, dtype=bool)
    has_class[NUM_PROGRAMS] = True
    for program, first in representatives(get_program_vocab(task.program_vocab)).items():
        mapped[program] = first
        has_class[program] = True
    drums = np.arange(NUM_PITCHES, dtype=np.int64)
    for pitch, first in representatives(get_drum_vocab(task.drum_vocab)).items():
        drums[pitch] = first
    pitches = np.concatenate(
        [
            layout.token_range("pitch").start + np.arange(NUM_PITCHES, dtype=np.int64),
            layout.token_range("drum").start + drums,
        ]
    )
    tie_id = layout.token_range("tie").start
    last_token = np.concatenate([pitches, np.full(256, tie_id), pitches, np.full(256, EOS_ID)])
    has_program = np.zeros(1024, dtype=bool)
    has_program[:256] = True
    has_program[512:640] = True
    channel = np.zeros(NUM_PROGRAMS + 1, dtype=np.int64)
    if task.channels:
        channel[:] = NO_CHANNEL
        for program, number in task.program_channels().items():
            channel[program] = number
    return EncodingTables(
        layout=layout,
        num_channels=task.num_channels,
        shift_start=layout.token_range("shift").start,
        tie_id=tie_id,
        velocity_start=layout.token_range("velocity").start,
        program_class=mapped if task.merge_classes else np.arange(NUM_PROGRAMS + 1, dtype=np.int64),
        program_token=layout.token_range("program").start + mapped,
        last_token=last_token,
        has_program=has_program,
        channel=channel,
        has_class=has_class & (channel != NO_CHANNEL),
    )

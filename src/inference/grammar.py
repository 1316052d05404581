"""Constrained decoding: only token sequences that the tokenizer could have written, for chosen instruments.

A sequence is (program pitch+)* tie, then events, then EOS. An event is [shift] [program] [velocity] and a
pitch or a drum. The network's choice is limited so that the sequence decodes without errors: shifts rise, a
note ends only if it sounds and begins only if it does not; within one tick ends stand before beginnings, and
no drum is struck twice.

Axes: R rows, C channels, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..config.names import unknown_name
from ..config.vocabularies import DRUM_CLASS, get_program_vocab
from ..notes.note import DRUM_PROGRAM
from ..tokenizer import NoteTokenizer

_PITCHES = 128
_TIES, _TIED_PROGRAM, _EVENTS, _SHIFT, _PROGRAM, _VELOCITY, _PROGRAM_VELOCITY, _ENDED = range(8)
"""What was read last, as far as it limits what may follow."""


def find_instruments(tokenizer: NoteTokenizer, names: Sequence[str]) -> frozenset[int]:
    """Programs (128: drums) of class names of the task, or of numbers 0 to 127.

    Raises:
        ValueError: an unknown name, or instruments the task does not write.
    """
    vocabulary = get_program_vocab(tokenizer.task.program_vocab)
    classes = {name.lower(): programs for name, programs in vocabulary.items()}
    classes[DRUM_CLASS.lower()] = (DRUM_PROGRAM,)
    found: set[int] = set()
    for name in names:
        if name.isdecimal() and int(name) < DRUM_PROGRAM:
            found.add(int(name))
        elif name.lower() in classes:
            found.update(classes[name.lower()])
        else:
            raise unknown_name("instrument", name, [*vocabulary, DRUM_CLASS, "a program number 0 to 127"])
    if not tokenizer.written_programs(found).any():
        every = {**vocabulary, DRUM_CLASS: (DRUM_PROGRAM,)}
        written = [name for name, programs in every.items() if tokenizer.written_programs(programs).any()]
        raise ValueError(
            f"--instruments {' '.join(names)}: the task {tokenizer.task.name} writes none of them, but "
            f"{', '.join(written)}"
        )
    return frozenset(found)


class TokenGrammar:
    """A constraint for :func:`amt.model.decoder.decode_stream`; rows are window times C plus channel.

    Args:
        tokenizer: the tokens.
        device: where decoding happens.
        programs: instruments to write (128: drums); None: all of the task.
        subtask: the sub-task that is asked for, which limits them too.
    """

    def __init__(
        self,
        tokenizer: NoteTokenizer,
        device: torch.device,
        programs: frozenset[int] | None = None,
        subtask: str | None = None,
    ) -> None:
        self._num_tokens, self._num_channels = tokenizer.vocab_size, tokenizer.num_channels
        self._pad, self._eos, self._tie = tokenizer.pad_id, tokenizer.eos_id, tokenizer.tie_id
        ranges = {
            kind: tokenizer.token_range(kind) for kind in ("shift", "pitch", "velocity", "program", "drum")
        }
        self._slices = {kind: slice(ids.start, ids.stop) for kind, ids in ranges.items()}
        written = torch.from_numpy(tokenizer.written_programs(programs, subtask)).to(device)
        self._programs, self._drums = written[:, :DRUM_PROGRAM], written[:, DRUM_PROGRAM]
        self._steps = torch.arange(len(ranges["shift"]), device=device)

    def begin(self, rows: Tensor) -> None:
        """See :class:`amt.model.decoder.Constraint`."""
        count, device = len(rows), rows.device
        self._channel = rows % self._num_channels
        self._index = torch.arange(count, device=device)
        self._phase = torch.full((count,), _TIES, device=device)
        self._program = torch.full((count,), -1, device=device)
        self._velocity = torch.full((count,), -1, device=device)
        self._shift = torch.zeros(count, dtype=torch.int64, device=device)
        self._sounding = torch.zeros(count, DRUM_PROGRAM, _PITCHES, dtype=torch.bool, device=device)
        self._num_sounding = torch.zeros(count, DRUM_PROGRAM, dtype=torch.int64, device=device)
        self._began = torch.zeros(count, DRUM_PROGRAM, dtype=torch.bool, device=device)
        """Whether a note of the program began in this tick."""
        self._struck = torch.zeros(count, _PITCHES, dtype=torch.bool, device=device)
        """Drums struck in this tick."""

    def _tensors(self) -> dict[str, Tensor]:
        names = "channel phase program velocity shift sounding num_sounding began struck"
        return {f"_{name}": getattr(self, f"_{name}") for name in names.split()}

    def replace(self, places: Tensor, rows: Tensor) -> None:
        """See :class:`amt.model.decoder.Constraint`."""
        for name, value in self._tensors().items():
            value[places] = -1 if name in ("_program", "_velocity") else 0
        self._channel[places] = rows % self._num_channels

    def keep(self, places: Tensor) -> None:
        """See :class:`amt.model.decoder.Constraint`."""
        for name, value in self._tensors().items():
            setattr(self, name, value[places])
        self._index = self._index[: len(places)]

    def _in(self, *phases: int) -> Tensor:
        found = self._phase == phases[0]
        for phase in phases[1:]:
            found = found | (self._phase == phase)
        return found

    def allowed(self) -> Tensor:
        """(R, V) bool: the tokens that may follow."""
        rows, velocity = len(self._phase), self._velocity
        programs, drums = self._programs[self._channel], self._drums[self._channel]
        programs = programs & (self._num_sounding < _PITCHES)
        program = self._program.clamp(min=0)
        sounding = self._sounding[self._index, program]
        num_sounding = self._num_sounding[self._index, program]
        began = self._began[self._index, program]
        has_program = self._program >= 0
        ties, events = self._in(_TIES, _TIED_PROGRAM), self._in(_EVENTS, _SHIFT)
        can_begin = has_program & (num_sounding < _PITCHES)
        can_end = has_program & (num_sounding > 0) & ~began
        free_drums = drums[:, None] & ~self._struck
        out = torch.zeros(rows, self._num_tokens, dtype=torch.bool, device=self._phase.device)

        def allow(kind: str, value: Tensor) -> None:
            out[:, self._slices[kind]] = value

        out[:, self._tie] = self._phase == _TIES
        out[:, self._eos] = self._phase == _EVENTS
        out[:, self._pad] = self._phase == _ENDED
        something = programs.any(1) | drums
        rising = self._steps > self._shift[:, None]
        allow("shift", rising & ((self._phase == _EVENTS) & something)[:, None])
        allow("program", programs & (events | (self._phase == _TIES))[:, None])
        drum_may_follow = events & free_drums.any(1)
        before_velocity = events | self._in(_PROGRAM)
        switch_on = before_velocity & (velocity != 1) & (can_begin | drum_may_follow)
        switch_off = before_velocity & (velocity != 0) & can_end
        allow("velocity", torch.stack([switch_off, switch_on], 1))
        pitch = events | self._in(_PROGRAM, _VELOCITY, _PROGRAM_VELOCITY)
        begins = (ties & has_program) | (pitch & has_program & (velocity == 1))
        ends = pitch & can_end & (velocity == 0)
        allow("pitch", (begins[:, None] & ~sounding) | (ends[:, None] & sounding))
        strikes = (events | self._in(_VELOCITY)) & (velocity == 1)
        allow("drum", strikes[:, None] & free_drums)
        return out

    def advance(self, tokens: Tensor) -> None:
        """Each row read a token (R,)."""

        def read(kind: str) -> tuple[Tensor, Tensor]:
            ids = self._slices[kind]
            return (tokens >= ids.start) & (tokens < ids.stop), (tokens - ids.start).clamp(
                0, ids.stop - ids.start - 1
            )

        index, ties = self._index, self._in(_TIES, _TIED_PROGRAM)
        is_shift, shift = read("shift")
        is_program, program = read("program")
        is_velocity, velocity = read("velocity")
        is_pitch, pitch = read("pitch")
        is_drum, drum = read("drum")
        self._shift = torch.where(is_shift, shift, self._shift)
        self._began &= ~is_shift[:, None]
        self._struck &= ~is_shift[:, None]
        self._program = torch.where(is_program, program, self._program)
        self._velocity = torch.where(is_velocity, velocity, self._velocity)
        current = self._program.clamp(min=0)
        begins = is_pitch & (ties | (self._velocity == 1))
        before = self._sounding[index, current, pitch]
        after = torch.where(is_pitch, begins, before)
        self._sounding[index, current, pitch] = after
        self._num_sounding[index, current] += after.long() - before.long()
        self._began[index, current] |= begins & ~ties
        self._struck[index, drum] |= is_drum
        phase = self._phase
        behind_program = self._in(_PROGRAM)
        phase = torch.where(is_shift, _SHIFT, phase)
        phase = torch.where(is_program, torch.where(ties, _TIED_PROGRAM, _PROGRAM), phase)
        phase = torch.where(is_velocity, torch.where(behind_program, _PROGRAM_VELOCITY, _VELOCITY), phase)
        phase = torch.where(is_pitch, torch.where(ties, _TIES, _EVENTS), phase)
        phase = torch.where(is_drum | (tokens == self._tie), _EVENTS, phase)
        self._phase = torch.where((tokens == self._eos) | (self._phase == _ENDED), _ENDED, phase)

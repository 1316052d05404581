"""MIDI files to notes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..config.names import counted
from .cleaning import MINIMUM_SECONDS, clean_notes
from .midi_file import MidiFile, MidiTrack, parse_midi
from .note import CHORUS_PROGRAM, DRUM_PROGRAM, NOTE_DTYPE, SINGING_PROGRAM, Note, array_to_notes

DRUM_CHANNEL = 9
VOICE_TRACK_NAMES = {"singing voice": SINGING_PROGRAM, "singing voice (chorus)": CHORUS_PROGRAM}
"""Track names, in lower case, whose notes are sung whatever their program: General MIDI has no voice
that sings words, so the name carries it."""
DEFAULT_TEMPO = 500_000
_CONTROL_SUSTAIN, _ALL_SOUND_OFF, _RESET_CONTROLLERS, _ALL_NOTES_OFF = 64, 120, 121, 123

Voice = tuple[int, int, int]
"""Port, channel, and the track where tracks share a channel with programs of their own (else -1)."""


class MidiWarning(UserWarning):
    """A MIDI file was read although something in it was wrong."""


class _VoiceState:
    """Program, pedal and sounding notes of one channel."""

    def __init__(self) -> None:
        self.program = 0
        self.pedal = False
        self.sounding: dict[int, list[int]] = {}
        """Pitch to the numbers of the notes whose key is down, oldest first."""
        self.held: dict[int, list[int]] = {}
        """Pitch to the numbers of the notes that only the pedal holds."""


@dataclass(frozen=True)
class _Instruments:
    """How notes get their instrument."""

    program: int | None
    drums: bool | None
    named: Mapping[str, int]
    """Track name in lower case to program."""

    def choose(self, track: str, channel: int, program: int) -> tuple[int, bool]:
        """Program and drum flag of a note by the name of its track, its channel and the channel's program."""
        named = self.named.get(track.lower())
        drum = channel == DRUM_CHANNEL or named == DRUM_PROGRAM
        if drum if self.drums is None else self.drums:
            return DRUM_PROGRAM, True
        if named is not None and named != DRUM_PROGRAM:
            return named, False
        return program if self.program is None else self.program, False


def read_midi(
    path: str | os.PathLike[str],
    *,
    sustain: bool = True,
    program: int | None = None,
    drums: bool | None = None,
    track_programs: Mapping[str, int] | None = None,
) -> list[Note]:
    """Notes of a MIDI file, cleaned and sorted, in seconds.

    Tempo events count on every track. The program is that of the channel when the note starts (0 if
    none was set); tracks that share a channel but each set a program keep their own. Notes on channel
    10 are drums: program 128, 10 ms long. Notes of tracks named "Singing Voice" and "Singing Voice
    (chorus)" get programs 100 and 101. A note-off ends the oldest sounding note of its pitch. With
    ``sustain`` notes sound while the pedal (controller 64 at 64 or more) is down. A pitch struck again
    ends its earlier note. Notes without note-off end with their track.

    What a data set knows better than its files can be given: ``program`` is that of all pitched notes,
    ``drums`` says that all notes are drums (True) or none (False), whatever their channel, and
    ``track_programs`` gives the program (128: drums) of tracks by their name in any case, before ``program``.

    Raises ``ValueError`` that names the file when it is no MIDI file, empty, of type 2 or in SMPTE time,
    and for a ``program`` outside 0 to 127 or one of ``track_programs`` outside 0 to 128.
    Damaged parts are left out with one :class:`MidiWarning`.
    """
    if program is not None and not 0 <= program < DRUM_PROGRAM:
        raise ValueError(f"program must be 0 to 127, not {program} (drums=True makes all notes drums)")
    for name, number in (track_programs or {}).items():
        if not 0 <= number <= DRUM_PROGRAM:
            raise ValueError(
                f"track_programs gives {name!r} the program {number}; it must be 0 to 127, or 128 for drums"
            )
    path = Path(path)
    file = _parse(path)
    names = VOICE_TRACK_NAMES | {name.lower(): number for name, number in (track_programs or {}).items()}
    rows, ticks = _collect_notes(file, sustain, _Instruments(program, drums, names))
    if file.problems:
        warnings.warn(f"{path}: {'; '.join(file.problems)}", MidiWarning, stacklevel=2)
    seconds = _to_seconds(file, np.array(ticks, dtype=np.int64).reshape(-1, 2))
    notes = np.array([(0.0, 0.0, *row) for row in rows], dtype=NOTE_DTYPE)
    notes["onset"], notes["offset"] = seconds[:, 0], seconds[:, 1]
    hits = notes["is_drum"]
    notes["offset"][hits] = notes["onset"][hits] + MINIMUM_SECONDS
    return array_to_notes(clean_notes(notes))


def states_program(path: str | os.PathLike[str]) -> bool:
    """Whether a MIDI file says of any pitched note what plays it.

    A program change says it, but for one on channel 10, and so does the name of a voice's track. Without
    either :func:`read_midi` takes all pitched notes for program 0, which nobody wrote.

    Raises ``ValueError`` as :func:`read_midi` does.
    """
    tracks = _parse(Path(path)).tracks
    return any(
        track.name.lower() in VOICE_TRACK_NAMES
        or any(status >> 4 == 0xC and status & 15 != DRUM_CHANNEL for _, _, status, _, _ in track.events)
        for track in tracks
    )


def _parse(path: Path) -> MidiFile:
    try:
        return parse_midi(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _to_seconds(file: MidiFile, ticks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Seconds of ticks of any shape by the tempo events of all tracks; the last one at a tick holds."""
    tempos = {0: DEFAULT_TEMPO}
    for tick, tempo in sorted((t for track in file.tracks for t in track.tempos), key=lambda item: item[0]):
        tempos[tick] = tempo
    at = np.array(list(tempos), dtype=np.int64)
    seconds_per_tick = np.array(list(tempos.values())) / (1e6 * file.ticks_per_beat)
    begins = np.concatenate([[0.0], np.cumsum(np.diff(at) * seconds_per_tick[:-1])])
    part = np.searchsorted(at, ticks, side="right") - 1
    seconds: npt.NDArray[np.float64] = begins[part] + (ticks - at[part]) * seconds_per_tick[part]
    return seconds


def _split_channels(tracks: list[MidiTrack]) -> set[tuple[int, int]]:
    """Ports and channels that at least two tracks play on, each with program changes of its own."""
    users: Counter[tuple[int, int]] = Counter()
    for track in tracks:
        played, changed = set(), set()
        for _, port, status, _, velocity in track.events:
            if status >> 4 == 0x9 and velocity:
                played.add((port, status & 15))
            elif status >> 4 == 0xC:
                changed.add((port, status & 15))
        users.update(played & changed)
    return {channel for channel, count in users.items() if count > 1}


def _collect_notes(
    file: MidiFile, sustain: bool, instruments: _Instruments
) -> tuple[list[tuple[int, int, int, bool]], list[tuple[int, int]]]:
    """Pitch, program, velocity and drum flag of each note, and its first and last tick."""
    split = _split_channels(file.tracks)
    states: dict[Voice, _VoiceState] = {}
    rows: list[tuple[int, int, int, bool]] = []
    first: list[int] = []
    last: list[int] = []
    source: list[int] = []
    bad_pitches = 0
    # Sorting by tick and track is stable, so each track keeps its own order.
    merged = sorted(
        ((event[0], number, event) for number, track in enumerate(file.tracks) for event in track.events),
        key=lambda item: item[:2],
    )
    for tick, number, (_, port, status, data1, data2) in merged:
        kind, channel = status >> 4, status & 15
        voice = (port, channel, number if (port, channel) in split else -1)
        state = states.get(voice)
        if state is None:
            state = states[voice] = _VoiceState()
        if kind == 0x9 and data2:
            if data1 > 127:
                bad_pitches += 1
                continue
            program, drum = instruments.choose(file.tracks[number].name, channel, state.program)
            for held in state.held.pop(data1, ()):
                last[held] = tick
            if not drum:
                state.sounding.setdefault(data1, []).append(len(rows))
            rows.append((data1, program, min(data2, 127), drum))
            first.append(tick)
            last.append(tick if drum else -1)
            source.append(number)
        elif kind in (0x8, 0x9):
            waiting = state.sounding.get(data1)
            if waiting:
                # Tracks that share a channel end their own notes first.
                index = next((i for i, note in enumerate(waiting) if source[note] == number), 0)
                note = waiting.pop(index)
                if state.pedal:
                    state.held.setdefault(data1, []).append(note)
                else:
                    last[note] = tick
        elif kind == 0xC:
            state.program = data1 & 127
        elif kind == 0xB:
            if data1 == _CONTROL_SUSTAIN:
                state.pedal = sustain and data2 >= 64
            elif data1 == _RESET_CONTROLLERS:
                state.pedal = False
            elif data1 in (_ALL_NOTES_OFF, _ALL_SOUND_OFF):
                for pitch, waiting in state.sounding.items():
                    state.held.setdefault(pitch, []).extend(waiting)
                state.sounding = {}
            if not state.pedal or data1 == _ALL_SOUND_OFF:
                for waiting in state.held.values():
                    for note in waiting:
                        last[note] = tick
                state.held = {}
    if bad_pitches:
        file.problems.append(f"{counted(bad_pitches, 'note')} with a pitch above 127")
    return _end_open_notes(file, states, rows, first, last, source)


def _end_open_notes(
    file: MidiFile,
    states: dict[Voice, _VoiceState],
    rows: list[tuple[int, int, int, bool]],
    first: list[int],
    last: list[int],
    source: list[int],
) -> tuple[list[tuple[int, int, int, bool]], list[tuple[int, int]]]:
    """End open notes with their track; those that start where it ends are left out."""
    never_released = sum(len(notes) for state in states.values() for notes in state.sounding.values())
    if never_released:
        file.problems.append(f"{counted(never_released, 'note')} without note-off, ended with their track")
    open_notes = [note for note, tick in enumerate(last) if tick < 0]
    for note in open_notes:
        last[note] = file.tracks[source[note]].end_tick
    without_time = {note for note in open_notes if last[note] <= first[note]}
    kept = [note for note in range(len(rows)) if note not in without_time]
    return [rows[note] for note in kept], [(first[note], last[note]) for note in kept]
